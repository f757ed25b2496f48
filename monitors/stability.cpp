#include "troupe/monitors/stability.hpp"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <numeric>

#include "troupe/base/error.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

/// The last values of one quantity.
class value_window {
 public:
  explicit value_window(const stability_options& options) : options_(options) {}

  /// Whether the value is a spike beside those before it.
  bool add(double value) {
    if (!std::isfinite(value))
      return true;
    const bool spike = is_spike(value);
    values_.push_back(value);
    if (values_.size() > options_.window)
      values_.pop_front();
    return spike;
  }
  std::size_t size() const { return values_.size(); }

 private:
  bool is_spike(double value) const {
    if (values_.size() < options_.window)
      return false;
    const auto n = static_cast<double>(values_.size());
    const auto mean = std::accumulate(values_.begin(), values_.end(), 0.0) / n;
    double squares = 0;
    for (const auto x : values_)
      squares += (x - mean) * (x - mean);
    const auto deviation = std::sqrt(squares / n);
    return deviation >= 1e-10 && value > mean + options_.sigmas * deviation;
  }

  stability_options options_;
  std::deque<double> values_;
};

class stability_state {
 public:
  stability_state(const stability_options& options, sink_pointer sink)
    : options_(options),
      sink_(std::move(sink)),
      loss_(options),
      norm_(options) {}

  void see(const step_event& step) {
    if (step.source.phase != phase::training || step.losses.empty()
        || !step.losses[0].counts())
      return;
    const bool loss = check(loss_, step, "loss", step.losses[0].value);
    const bool norm = check(norm_, step, "gradient norm", step.gradient_norm);
    count(loss || norm);
    tell(step.source);
  }
  std::int64_t kept_bytes() const {
    return static_cast<std::int64_t>(
      (loss_.size() + norm_.size()) * sizeof(double)
      + recent_.size() * sizeof(recent_.front()));
  }

 private:
  bool check(value_window& window, const step_event& step, const char* what,
             double value) {
    const bool spike = window.add(value);
    if (spike)
      sink_->write(alert{step.source, "stability",
                         fmt::format("step {}: the {} jumped to {:.6g}",
                                     step.source.step, what, value)});
    return spike;
  }

  void count(bool spike) {
    recent_.push_back(spike);
    recent_spikes_ += spike;
    if (recent_.size() > options_.rolling) {
      recent_spikes_ -= recent_.front();
      recent_.pop_front();
    }
    ++steps_;
    spikes_ += spike;
  }

  void tell(const event_source& source) {
    metrics_record record{source};
    if (recent_.size() == options_.rolling)
      record.values.push_back(
        {"spike/score", static_cast<double>(recent_spikes_)
                          / static_cast<double>(options_.rolling)});
    if (steps_ >= static_cast<std::int64_t>(options_.window))
      record.values.push_back(
        {"spike/score_total",
         static_cast<double>(spikes_) / static_cast<double>(steps_)});
    if (!record.values.empty())
      sink_->write(record);
  }

  stability_options options_;
  required_sink sink_;
  value_window loss_, norm_;
  std::deque<bool> recent_;
  std::int64_t recent_spikes_ = 0, steps_ = 0, spikes_ = 0;
};

}  // namespace

monitor stability_monitor(const stability_options& options, sink_pointer sink) {
  if (options.window < 2 || options.rolling < 1 || !(options.sigmas > 0))
    throw error(error_code::invalid_argument,
                "stability: use a window of 2 or more, a rolling of 1 or more "
                "steps, and more than 0 sigmas");
  auto result = monitor_of(
    "stability", std::make_shared<stability_state>(options, std::move(sink)));
  result.wants.warnings = false;
  return result;
}

}  // namespace troupe
