#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"

namespace troupe {

/// Which memory a search may use; without sizes it isn't looked at.
struct memory_bound {
  std::optional<value_sizes> sizes{};
  double bytes = 0;
};

/// Finds other orders for the ops of a live run, from the costs that it
/// measures: when asked, or after every so many steps. An order that may be
/// better by 2 %, as far as the simulator can tell, is tried: the run takes
/// some steps of it, which changes no bit, and returns to its own order unless
/// they were faster by 2 %. An order found by a search is tried if it is
/// predicted to be better by 2 %; a search that the run makes by itself does
/// not try again what was refused last. A search for which the run has no split
/// backwards first lets it take a few steps of its own order with split ones,
/// which measures I and W. After a trial the run's own order is compiled again,
/// also where a plan was given. Any thread; two requests are served one after
/// the other.
class replanner {
 public:
  /// `every`: steps between two searches; 0: only when asked. The run
  /// outlives it.
  replanner(trainer& run, std::int64_t every);
  /// The run is left alone from here on; a search that runs ends.
  ~replanner();
  replanner(const replanner&) = delete;
  replanner& operator=(const replanner&) = delete;

  /// Ends a search that runs, and a wait for steps; further requests throw
  /// `interrupted`. Any thread.
  void end();

  /// To be attached to the run: gathers the costs, and searches.
  monitor watch() const;

  struct outcome {
    schedule order{};
    bool taken = false;
    bool same = false;  // the run's own order: nothing was tried or changed
    /// ms of a step: `now` measured, `predicted` the simulated step times the
    /// ratio of measured to simulated time of the current order. 0: not
    /// measured yet.
    double now = 0, predicted = 0;
    /// ms of a step: the median of `trial_steps`, or `predicted` without any.
    double then = 0;
    int trial_steps = 0;
    /// The relative uncertainty of `then`: after a trial, twice the standard
    /// error of its median step; otherwise the simulator's error for the
    /// current order, the spread of its steps, and, where I and W (or B) were
    /// not measured, their usual difference from halves of B (their sum).
    double uncertainty = 0;
  };
  /// The best order of the run's stages on their ranks, for the costs of the
  /// last 16 steps. Throws `error`: as `search`; invalid_argument before the
  /// first step, interrupted once the run is over.
  outcome search(const memory_bound& bound = {}) const;
  /// An order that was chosen otherwise, unless it is the run's own (with
  /// `force`, by name, too); with `force`, and before the first
  /// step has been measured, whatever it costs: a trial only tells its time.
  /// Throws as `trainer::replan`.
  outcome take(const schedule& order, bool force = false) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe
