#include "troupe/monitors/throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "troupe/engine/plan/op_text.hpp"
#include "troupe/monitors/step_collector.hpp"
#include "troupe/monitors/step_times.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

constexpr int steps_to_tell = 3;

double seconds_between(std::int64_t begin, std::int64_t end) {
  return static_cast<double>(end - begin) * 1e-9;
}

double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double median_of(std::vector<double> values) {
  const auto middle =
    values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class throughput_state {
 public:
  throughput_state(std::shared_ptr<const plan> of,
                   const throughput_options& options, sink_pointer sink)
    : plan_(std::move(of)), options_(options), sink_(std::move(sink)) {}

  void see(const event& what) {
    if (const auto* messages = std::get_if<messages_event>(&what))
      add_messages(*messages);
    else if (const auto* memory = std::get_if<memory_event>(&what))
      of_ranks_.push_back(
        {metric_of(memory->source, "memory_mib"), mib(memory->resident_bytes)});
    else if (std::holds_alternative<dropped_event>(what))
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
        {"throughput/mfu", 6.0 * static_cast<double>(options_.parameters)
                             * tokens_per_second(step)
                             / (options_.peak_flops * lanes)});
    find_stragglers(step.source, *ops, record);
    std::ranges::move(of_ranks_, std::back_inserter(record.values));
    of_ranks_.clear();
    sink_->write(record);
  }

 private:
  static double tokens_per_second(const step_event& step) {
    return static_cast<double>(step.tokens)
           / seconds_between(step.begin, step.end);
  }

  void add_totals(const step_event& step, const std::vector<ops_event>& ops,
                  metrics_record& record) const {
    const auto times = times_of(*plan_, ops);
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

  using seconds_by_kind = std::map<plan_op_kind, double>;

  seconds_by_kind busy_of(const ops_event& rank) const {
    seconds_by_kind busy;
    for (const auto& op : rank.ops)
      if (const auto kind = plan_->ops[op.op].kind; is_compute(kind))
        busy[kind] += seconds_between(op.begin, op.end);
    return busy;
  }

  void find_stragglers(const event_source& source,
                       const std::vector<ops_event>& ops,
                       metrics_record& record) {
    std::map<plan_op_kind, std::vector<double>> of_all;
    for (const auto& rank : ops)
      for (const auto& [kind, seconds] : busy_of(rank))
        of_all[kind].push_back(seconds);
    for (const auto& rank : ops) {
      double busy = 0;
      std::string slow;
      for (const auto& [kind, seconds] : busy_of(rank)) {
        busy += seconds;
        slow += compare(rank.source, kind, seconds, median_of(of_all[kind]));
      }
      record.values.push_back({metric_of(rank.source, "busy_seconds"), busy});
      if (!slow.empty())
        sink_->write(alert{
          rank.source, "throughput",
          fmt::format("step {}: {} is a straggler, in {} steps in a row"
                      "{}; its device is slow, or its stages cost more "
                      "than others (see --split)",
                      source.step, name_of(rank.source), steps_to_tell, slow)});
    }
  }

  /// Tells of ops that take too long beside the median rank's, as much as this
  /// rank is known for. Once told of, it is known for it.
  std::string compare(const event_source& at, plan_op_kind kind, double seconds,
                      double median) {
    const auto times = seconds / median;
    auto& [usual, slow] = paces_[{name_of(at), kind}];
    if (times * options_.straggler < usual)
      usual = std::max(1.0, times);
    slow = times > options_.straggler * usual ? slow + 1 : 0;
    if (slow < steps_to_tell)
      return {};
    slow = 0;
    usual = times;
    return fmt::format("; {} ops took {:.1f} ms, the median rank's {:.1f} ms",
                       long_name(kind), seconds * 1e3, median * 1e3);
  }

  static std::string name_of(const event_source& at) {
    if (at.data_rank == 0)
      return fmt::format("rank{}", at.rank);
    return fmt::format("replica{}_rank{}", at.data_rank, at.rank);
  }

  static std::string metric_of(const event_source& at, const char* what) {
    return fmt::format("throughput/{}/{}", name_of(at), what);
  }

  std::shared_ptr<const plan> plan_;
  throughput_options options_;
  sink_pointer sink_;
  step_collector collector_;
  std::vector<metric> of_ranks_;  // of messages and memory, for the step's end
  /// How a rank's ops compare with the median rank's.
  struct pace {
    double usual = 1;
    int slow_steps = 0;
  };
  std::map<std::pair<std::string, plan_op_kind>, pace> paces_;
};

}  // namespace

monitor throughput_monitor(std::shared_ptr<const plan> of,
                           const throughput_options& options,
                           sink_pointer sink) {
  if (options.interval < 1)
    fail(error_code::invalid_argument,
         "throughput: interval is {}; use 1 or more steps", options.interval);
  if (!(options.straggler > 1) || options.peak_flops < 0)
    throw error(error_code::invalid_argument,
                "throughput: use a straggler factor above 1 and a peak_flops "
                "of 0 or more");
  auto state = std::make_shared<throughput_state>(std::move(of), options, sink);
  monitor made;
  made.name = "throughput";
  made.wants.ops = made.wants.messages = made.wants.memory = true;
  made.wants.warnings = false;
  made.wants.every = options.interval;
  made.see = [state](const event& what) { state->see(what); };
  made.finish = [sink] { sink->flush(); };
  return made;
}

}  // namespace troupe
