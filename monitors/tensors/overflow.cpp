#include "troupe/monitors/tensors/overflow.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/tensors/frame.hpp"

namespace troupe {

namespace {

bool is_bad(const tensor_record& record) {
  return record.statistics.nans + record.statistics.infs > 0;
}

/// Whether the update was left out since gradients overflowed at this loss
/// scale, which halves: routine while it is above 1. An infinite gradient at
/// a scale of 1 is the model's own.
bool is_of_loss_scale(const step_event& step) {
  return !step.updated && step.loss_scale > 1
         && !std::isfinite(step.gradient_norm)
         && std::ranges::all_of(step.losses, [](const named_value& loss) {
              return std::isfinite(loss.value);
            });
}

/// Ops of a step in causal order: a total order that every dependency obeys.
auto causal_rank(const tensors_event& op) {
  const auto& place = op.source;
  const bool end = place.microbatch < 0;
  return std::tuple(end, place.data_rank, place.microbatch, place.slice,
                    op.backward, op.backward ? -place.stage : place.stage);
}

class overflow_state {
 public:
  overflow_state(overflow_options options, sink_pointer sink)
    : options_(std::move(options)), sink_(std::move(sink)) {}

  void see(const tensors_event& op) {
    had_hit_ = had_hit_ || op.reading == step_reading::again;
    ops_.push_back(op);
  }
  void see(const step_event& step) {
    conclude(step.source,
             is_of_loss_scale(step) ? ending::overflowed : ending::whole);
  }
  void see(const failure_event& failure) {
    conclude(failure.source, ending::failed);
  }
  void see(const dropped_event&) { forget_step(); }
  void see(const epoch_event&) { forget_step(); }
  std::int64_t kept_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& op : before_)
      bytes += static_cast<std::int64_t>(sizeof(op)) + op.held_bytes();
    return bytes;
  }

 private:
  enum class ending : std::uint8_t { whole, overflowed, failed };
  /// The first bad tensor, as a place in `ops_`.
  struct finding {
    std::size_t op, record;
    std::size_t bad_tensors;
    bool in_forward;  // one of them at least
  };

  void forget_step() {
    ops_.clear();
    had_hit_ = false;
  }

  void conclude(const event_source& source, ending how) {
    if (source.phase != phase::training)
      return;
    std::ranges::stable_sort(ops_, {}, causal_rank);
    const auto batch = source.step - 1;
    if (std::ranges::count(options_.trace, batch) > 0)
      trace(batch);
    else
      detect(source, how);
    if (options_.abort_after >= 0 && batch >= options_.abort_after
        && how != ending::failed)
      throw stop_training(
        fmt::format("aborting after batch {}, as abort_after={} asks", batch,
                    options_.abort_after));
  }

  void trace(std::int64_t batch) {
    auto text = start_of_batch(batch);
    for (const auto& op : ops_)
      for (const auto& frame : frames_of(op))
        text += frame.text;
    print(text + end_of_batch(batch));
    forget_step();
  }

  void detect(const event_source& source, ending how) {
    std::optional<finding> first;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      for (std::size_t k = 0; k < ops_[i].tensors.size(); ++k) {
        const auto& op = ops_[i];
        watch_underflow(op, op.tensors[k]);
        if (!is_bad(op.tensors[k]))
          continue;
        if (!first)
          first = finding{i, k, 0, false};
        ++first->bad_tensors;
        first->in_forward |= !op.backward && op.source.microbatch >= 0;
      }
    if (first && how == ending::overflowed && !first->in_forward)
      tell(*first, "; the update is skipped, and the loss scale halved");
    else if (first)
      report(source, *first, how == ending::failed);
    else if (had_hit_ && options_.match == "*")
      tell_of_difference(source);
    keep_last_frames();
  }

  /// The second run of a step has other tensors than the first one.
  void tell_of_difference(const event_source& source) const {
    sink_->write(alert{
      source, "overflow",
      fmt::format(
        "step {}: something was not finite, and the step was run again to name "
        "it; then all tensors were finite. Does a layer keep a state, or draw "
        "random numbers other than by dropout and op_generator? If so, read "
        "all steps, with reading=full",
        source.step)});
  }

  /// Keeps the frames that may precede the next step's first ones, if this step
  /// was read.
  void keep_last_frames() {
    if (ops_.empty())
      before_.clear();
    std::ranges::move(ops_, std::back_inserter(before_));
    forget_step();
    std::size_t frames = 0;
    auto source = before_.end();
    while (source != before_.begin() && frames < options_.frames)
      frames += frames_of(*--source).size();
    before_.erase(before_.begin(), source);
  }

  /// The frames up to the one with the finding; which that is goes to `last`.
  std::vector<std::string> frames_before(const finding& first,
                                         module_frame& last) const {
    std::vector<std::string> texts;
    const auto* wanted = &ops_[first.op].tensors[first.record];
    auto step = before_.empty() ? -1 : before_.front().source.step;
    const auto add = [&](const tensors_event& op) {
      for (const auto& frame : frames_of(op)) {
        const bool begins = op.source.step != step;
        if (begins && !texts.empty())
          texts.back() += end_of_batch(step - 1);
        step = op.source.step;
        texts.push_back((begins ? start_of_batch(step - 1) : "") + frame.text);
        last = frame;
        if (std::ranges::count(frame.records, wanted) > 0)
          return true;
      }
      return false;
    };
    std::ranges::for_each(before_, add);
    for (const auto& op : ops_)
      if (add(op))
        break;
    return texts;
  }

  static std::string findings(const module_frame& frame) {
    std::string text;
    for (const auto* record : frame.records) {
      if (record->statistics.nans > 0)
        text += fmt::format("{} has nans\n", part_text(*record));
      if (record->statistics.infs > 0)
        text += fmt::format("{} has infs\n", part_text(*record));
    }
    return text;
  }

  static std::string describe(const tensors_event& op,
                              const tensor_record& record) {
    const auto& s = record.statistics;
    return fmt::format("{} of {} ({}), {}: {} of {} values are nan, {} inf",
                       part_text(record), record.owner->name,
                       to_text(record.kind), place_text(op), s.nans, s.count,
                       s.infs);
  }

  void report(const event_source& source, const finding& first, bool failed) {
    module_frame bad;
    auto frames = frames_before(first, bad);
    if (frames.size() > options_.frames)
      frames.erase(frames.begin(),
                   frames.end() - static_cast<std::ptrdiff_t>(options_.frames));
    print(
      fmt::format("{}\nDetected inf/nan during batch_number={}\n"
                  "Last {} forward frames:\n{}{}\n\n",
                  findings(bad), source.step - 1, frames.size(), frame_header(),
                  fmt::join(frames, "")));
    const auto summary = tell(first);
    if (options_.stop && !failed)
      throw stop_training(summary);
  }

  std::string tell(const finding& first, const char* more = "") {
    const auto& op = ops_[first.op];
    const auto summary = fmt::format(
      "step {}: the first tensor that is not finite is {}; {} such tensors "
      "were seen in this step{}",
      op.source.step, describe(op, op.tensors[first.record]), first.bad_tensors,
      more);
    sink_->write(alert{op.source, "overflow", summary});
    return summary;
  }

  void watch_underflow(const tensors_event& op, const tensor_record& record) {
    const auto& s = record.statistics;
    if (options_.underflow_share <= 0 || s.count == 0)
      return;
    const auto share =
      static_cast<double>(s.fp16_underflows) / static_cast<double>(s.count);
    if (share > options_.underflow_share)
      sink_->write(alert{
        op.source, "overflow",
        fmt::format("step {}: {:.1f} % of {} of {}, {}, would be zero in fp16",
                    op.source.step, 100 * share, part_text(record),
                    record.owner->name, place_text(op))});
  }

  void print(const std::string& text) const {
    if (options_.print)
      return options_.print(text);
    print_all(stdout, text);
  }

  overflow_options options_;
  required_sink sink_;
  std::vector<tensors_event> ops_;     // of the step that runs
  std::vector<tensors_event> before_;  // the last of the steps before
  bool had_hit_ = false;  // the step that runs is the second run of a watched
};

/// Whether the tensors of steps are wanted in which all are finite.
bool reads_healthy(const overflow_options& options) {
  return !options.trace.empty() || options.underflow_share > 0;
}

void require_legal(const overflow_options& options) {
  // All of them are looked through after each step.
  constexpr std::size_t most_frames = 1000;
  if (options.frames < 1 || options.frames > most_frames)
    fail(error_code::invalid_argument, "overflow: frames is {}; use 1 to {}",
         options.frames, most_frames);
  require_steps("overflow: every", options.every);
  if (options.abort_after < -1)
    fail(error_code::invalid_argument,
         "overflow: abort_after is {}; use a batch, counted from 0",
         options.abort_after);
  if (!(options.underflow_share >= 0 && options.underflow_share <= 1))
    fail(error_code::invalid_argument,
         "overflow: underflow_share is {}; use a share from 0 to 1",
         options.underflow_share);
  if (options.reading == overflow_reading::watch && reads_healthy(options))
    fail(error_code::invalid_argument,
         "overflow: {} needs the tensors of healthy steps, which reading=watch "
         "does not read; use reading=full, or leave reading out",
         options.trace.empty() ? "underflow_share" : "trace");
}

}  // namespace

monitor overflow_monitor(const overflow_options& options, sink_pointer sink) {
  require_legal(options);
  auto result = monitor_of(
    "overflow", std::make_shared<overflow_state>(options, std::move(sink)));
  result.wants.tensors =
    module_kinds | tensor_kind::gradient | tensor_kind::loss;
  result.wants.needs = options.underflow_share > 0 ? tensor_needs::statistics
                                                   : tensor_needs::extremes;
  result.wants.names = options.match;
  result.wants.every = options.every;
  result.wants.exempt = true;
  result.wants.watches =
    options.reading != overflow_reading::full && !reads_healthy(options);
  return result;
}

}  // namespace troupe
