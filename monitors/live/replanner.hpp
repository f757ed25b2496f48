#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/plan/peak_bytes.hpp"

namespace troupe {

/// Which memory a search may use; without sizes it isn't looked at.
struct memory_bound {
  std::optional<value_sizes> sizes{};
  double bytes = 0;
};

/// Finds other orders for the ops of a live run, from the costs that it
/// measures: when asked, or after every so many steps. The run takes an order
/// up at a step boundary. None is taken that is not better by 2 %, on paper.
/// Any thread.
class replanner {
 public:
  /// `every`: steps between two searches; 0: only when asked. The run
  /// outlives it.
  replanner(trainer& run, std::int64_t every);
  /// The run is left alone from here on; a search that runs ends.
  ~replanner();
  replanner(const replanner&) = delete;
  replanner& operator=(const replanner&) = delete;

  /// To be attached to the run: gathers the costs, and searches.
  monitor watch() const;

  struct outcome {
    schedule order{};
    bool taken = false;
    double now = 0, then = 0;  // of a step on paper, in ms; 0: not known yet
  };
  /// The best order of the run's stages on their ranks, for the costs of the
  /// last 16 steps. Throws `error`: as `search`; invalid_argument before the
  /// first step, interrupted once the run is over.
  outcome search(const memory_bound& bound = {}) const;
  /// An order that was chosen otherwise; with `force`, and before the first
  /// step has been measured, whatever it costs. Throws as `trainer::replan`.
  outcome take(const schedule& order, bool force = false) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe
