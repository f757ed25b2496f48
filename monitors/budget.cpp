#include "troupe/monitors/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "troupe/base/fail.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

class budget_state {
 public:
  budget_state(const budget_options& options, std::int32_t lanes,
               std::function<void(std::int64_t)> observe_every,
               sink_pointer sink)
    : options_(options),
      lanes_(lanes),
      observe_every_(std::move(observe_every)),
      sink_(std::move(sink)) {}

  void see(const step_event& step) {
    if (step.source.phase != phase::training)
      return;
    const bool observed = step.observed;
    // Costs count by whole rounds, which begin after an observed step.
    if (began_) {
      spent_ += step.observe_seconds + step.monitor_seconds;
      passed_ += static_cast<double>(step.end - step.begin) * 1e-9 * lanes_;
      observed_ += observed;
    }
    began_ = began_ || observed;
    if (observed_ < 2)
      return;
    adjust(step.source);
    spent_ = passed_ = 0;
    observed_ = 0;
  }

  /// Leaves it to others, unless it was this one who changed it.
  void finish() const {
    if (every_ > 1)
      observe_every_(1);
  }

 private:
  void adjust(const event_source& source) {
    // Other monitors may leave out steps of their own: what counts is what all
    // steps together cost as it is. Rounding must not add a step.
    const auto share = spent_ / passed_;
    const auto needed =
      std::ceil(static_cast<double>(every_) * share / options_.share - 1e-6);
    const auto next = static_cast<std::int64_t>(
      std::clamp(needed, 1.0, static_cast<double>(options_.longest)));
    metrics_record record{source};
    record.values = {{"budget/share", share},
                     {"budget/observed_every", static_cast<double>(next)}};
    sink_->write(record);
    // Not for every flicker of the clock.
    if (next > every_ || next * 2 < every_)
      change(source, share, next);
  }

  void change(const event_source& source, double share, std::int64_t next) {
    sink_->write(
      alert{source, "budget",
            fmt::format(
              "step {}: monitors take {:.2f} % of the time (budget: {:.2f} %); "
              "tensors are now observed in one of {} steps, except by monitors "
              "that detect failures (overflow, retro, gradient_dump)",
              source.step, 100 * share, 100 * options_.share, next)});
    every_ = next;
    began_ = false;
    observe_every_(next);
  }

  budget_options options_;
  double lanes_;
  std::function<void(std::int64_t)> observe_every_;
  required_sink sink_;
  double spent_ = 0, passed_ = 0;
  int observed_ = 0;
  bool began_ = false;
  std::int64_t every_ = 1;
};

}  // namespace

monitor budget_monitor(const budget_options& options, std::int32_t lanes,
                       std::function<void(std::int64_t)> observe_every,
                       sink_pointer sink) {
  if (!(options.share > 0 && options.share <= 1))
    fail(error_code::invalid_argument,
         "budget: share is {}; use a share above 0 and at most 1",
         options.share);
  require_steps("budget: longest", options.longest);
  if (lanes < 1)
    fail(error_code::invalid_argument, "budget: lanes is {}; use 1 or more",
         lanes);
  if (!observe_every)
    throw error(error_code::invalid_argument,
                "budget: observe_every is empty; give a function that calls "
                "trainer::observe_every");
  auto result = monitor_of(
    "budget", std::make_shared<budget_state>(
                options, lanes, std::move(observe_every), std::move(sink)));
  result.wants.warnings = false;
  return result;
}

}  // namespace troupe
