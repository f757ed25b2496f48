#include "troupe/monitors/timing/throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numbers>
#include <optional>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

namespace {

/// The middle one, or the mean of two; of at least one value.
double median_of(std::vector<double> values) {
  const auto middle =
    values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1)
    return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

/// How the ops of a rank compare with those of the others, step by step.
/// Nothing but a lasting difference, beyond the usual noise of this rank, is
/// told of: once, and again only if it grows, or comes back after the rank was
/// as fast as the others in 52 of 64 steps.
class pace {
 public:
  /// `factor`, above 1: what counts as slow.
  explicit pace(double factor) : least_(std::log(factor)) {}

  /// Adds a step in which the ops took `times` as long as the others'. A
  /// number: this rank is slow, by that factor, and is to be told of now.
  std::optional<double> add(double times) {
    if (!(times > 0) || !std::isfinite(times))
      return {};
    steps_.push_back(std::log(times));
    if (steps_.size() > steps_kept)
      steps_.pop_front();
    const auto level = threshold();
    // Far longer, and half the way back, so that no rank that hovers about the
    // threshold is news again and again.
    const auto since = last(++steps_since_told_);
    const auto fast = std::ranges::count_if(
      since, [this](double each) { return each <= told_level_ / 2; });
    if (fast >= fast_steps_to_forget)
      told_slowness_ = 0;
    const auto latest = last(steps_looked_at);
    const auto slow = std::ranges::count_if(
      latest, [=, this](double each) { return each > told_slowness_ + level; });
    if (slow < steps_to_tell)
      return {};
    told_slowness_ = median_of(latest);
    told_level_ = level;
    steps_since_told_ = 0;
    return std::exp(told_slowness_);
  }

 private:
  static constexpr std::size_t steps_looked_at = 10;
  static constexpr std::ptrdiff_t steps_to_tell = 8;
  /// From which the noise is known, and whether a slow rank has recovered.
  static constexpr std::size_t steps_kept = 64;
  static constexpr std::ptrdiff_t fast_steps_to_forget = 52;
  /// In standard deviations.
  static constexpr double beyond_noise = 2;

  std::vector<double> last(std::size_t count) const {
    const auto there = std::min(count, steps_.size());
    return {steps_.end() - static_cast<std::ptrdiff_t>(there), steps_.end()};
  }

  /// The noise is what steps differ by from those before, so that a lasting
  /// change is none: of a normal distribution with this median difference.
  double threshold() const {
    std::vector<double> differences;
    for (std::size_t i = 1; i < steps_.size(); ++i)
      differences.push_back(std::abs(steps_[i] - steps_[i - 1]));
    if (differences.empty())
      return least_;
    const auto noise =
      1.4826 / std::numbers::sqrt2 * median_of(std::move(differences));
    return std::max(least_, beyond_noise * noise);
  }

  double least_;              // the factor, as a logarithm, as all are
  std::deque<double> steps_;  // the latest, with the last one at the end
  double told_slowness_ = 0;
  double told_level_ = 0;  // what counted as slow then
  std::size_t steps_since_told_ = 0;
};

double seconds_between(std::int64_t begin, std::int64_t end) {
  return static_cast<double>(end - begin) * 1e-9;
}

double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

class throughput_state {
 public:
  throughput_state(const throughput_options& options, sink_pointer sink)
    : options_(options), sink_(std::move(sink)) {}

  void see(const event& what) {
    if (const auto* messages = std::get_if<messages_event>(&what))
      add_messages(*messages);
    else if (const auto* memory = std::get_if<memory_event>(&what))
      of_ranks_.push_back(
        {metric_of(memory->source, "memory_mib"), mib(memory->resident_bytes)});
    else if (voids_step(what))
      of_ranks_.clear();
    const auto* ops = collector_.add(what);
    if (!ops || ops->empty())
      return;
    const auto& step = std::get<step_event>(what);
    metrics_record record{step.source};
    add_totals(step, *ops, record);
    const auto lanes = static_cast<double>(ops->size());
    if (options_.parameters > 0 && options_.peak_flops > 0)
      record.values.push_back(
        {"throughput/mfu", operations_of(step.source.phase)
                             * static_cast<double>(options_.parameters)
                             * tokens_per_second(step)
                             / (options_.peak_flops * lanes)});
    find_stragglers(step.source, *ops, record);
    std::ranges::move(of_ranks_, std::back_inserter(record.values));
    of_ranks_.clear();
    sink_->write(record);
  }

 private:
  /// Per parameter and token: two of a forward, four of a backward.
  static double operations_of(phase phase) {
    return phase == phase::training ? 6 : 2;
  }

  void add_totals(const step_event& step, const std::vector<ops_event>& ops,
                  metrics_record& record) const {
    const auto times = times_of(*ops.front().plan, ops);
    const auto lanes = static_cast<double>(ops.size());
    record.values = {
      {"throughput/tokens_per_second", tokens_per_second(step)},
      {"throughput/memory_mib", mib(step.resident_bytes)},
      {"throughput/bubble", times.bubble},
      {"throughput/plan_bubble", times.plan_bubble},
      {"throughput/observe_share",
       (step.observe_seconds + step.monitor_seconds)
         / (seconds_between(step.begin, step.end) * lanes)},
    };
  }

  void add_messages(const messages_event& received) {
    std::int64_t bytes = 0, wait = 0;
    for (const auto& each : received.messages) {
      bytes += each.bytes;
      wait += each.wait;
    }
    of_ranks_.push_back(
      {metric_of(received.source, "received_mib"), mib(bytes)});
    of_ranks_.push_back({metric_of(received.source, "message_wait_seconds"),
                         seconds_between(0, wait)});
  }

  static double busy_seconds(const ops_event& rank) {
    auto computing = rank.ops;
    std::erase_if(computing, [&](const op_record& op) {
      return !is_compute(rank.plan->ops[op.op].kind);
    });
    return seconds_between(0, busy_time(std::move(computing)));
  }

  using seconds_by_kind = std::map<plan_op_kind, double>;

  /// Seconds of a typical microbatch: the median for each of a rank's stages,
  /// so that an interrupted op doesn't count.
  static seconds_by_kind usual_of(const ops_event& rank) {
    std::map<std::pair<plan_op_kind, std::int32_t>, std::vector<double>> ops;
    for (const auto& op : rank.ops)
      if (const auto& planned = rank.plan->ops[op.op]; is_compute(planned.kind))
        ops[{planned.kind, planned.stage}].push_back(
          seconds_between(op.begin, op.end));
    seconds_by_kind usual;
    for (auto& [key, seconds] : ops)
      usual[key.first] += median_of(std::move(seconds));
    return usual;
  }

  void find_stragglers(const event_source& source,
                       const std::vector<ops_event>& ops,
                       metrics_record& record) {
    std::vector<seconds_by_kind> usual;
    for (const auto& rank : ops) {
      usual.push_back(usual_of(rank));
      record.values.push_back(
        {metric_of(rank.source, "busy_seconds"), busy_seconds(rank)});
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto slow = slowness_of(ops[i].source, i, usual);
      if (!slow.empty())
        sink_->write(alert{
          ops[i].source, "throughput",
          fmt::format(
            "step {}: {} has been a straggler in most recent steps{}; its "
            "device is slow, or its stages cost more than others (see --split)",
            source.step, name_of(ops[i].source), slow)});
    }
  }

  /// Empty: it is not, or was told of already.
  std::string slowness_of(const event_source& source, std::size_t rank,
                          const std::vector<seconds_by_kind>& usual) {
    std::string slow;
    for (const auto& [kind, seconds] : usual[rank]) {
      std::vector<double> others;
      for (std::size_t i = 0; i < usual.size(); ++i)
        if (const auto found = usual[i].find(kind);
            i != rank && found != usual[i].end())
          others.push_back(found->second);
      if (others.empty())
        continue;
      const auto median = median_of(std::move(others));
      auto& own_pace =
        paces_.try_emplace({name_of(source), kind}, options_.straggler)
          .first->second;
      if (const auto times = own_pace.add(seconds / median))
        slow += fmt::format(
          "; {} ops take {:.2f} times what they take on other ranks (now "
          "{:.3g} "
          "ms and {:.3g} ms)",
          traits_of(kind).name, *times, seconds * 1e3, median * 1e3);
    }
    return slow;
  }

  static std::string name_of(const event_source& source) {
    if (source.data_rank == 0)
      return fmt::format("rank{}", source.rank);
    return fmt::format("replica{}_rank{}", source.data_rank, source.rank);
  }

  static std::string metric_of(const event_source& source, const char* what) {
    return fmt::format("throughput/{}/{}", name_of(source), what);
  }

  throughput_options options_;
  required_sink sink_;
  step_collector collector_;
  std::vector<metric> of_ranks_;  // of messages and memory, for the step's end
  /// How a rank's ops of a kind compare with the others'.
  std::map<std::pair<std::string, plan_op_kind>, pace> paces_;
};

}  // namespace

monitor throughput_monitor(const throughput_options& options,
                           sink_pointer sink) {
  require_steps("throughput: every", options.every);
  if (!(options.straggler > 1 && options.peak_flops >= 0)
      || options.parameters < 0)
    throw error(error_code::invalid_argument,
                "throughput: use a straggler factor above 1, and a peak_flops "
                "and parameters of 0 or more");
  auto result = monitor_of(
    "throughput", std::make_shared<throughput_state>(options, std::move(sink)));
  result.wants.ops = result.wants.messages = result.wants.memory = true;
  result.wants.warnings = false;
  result.wants.every = options.every;
  return result;
}

}  // namespace troupe
