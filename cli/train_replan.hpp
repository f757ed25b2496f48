#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "troupe/actors/trainer.hpp"

namespace troupe::cli {

/// Finds other orders for the ops of a live run, from the costs that it
/// measures: when a client asks, or after every so many steps. The run takes an
/// order up at a step boundary; one that is not better by 2 %, on paper, is not
/// taken. Any thread.
class replanner {
 public:
  /// `every`: steps between two searches; 0: only when asked. The run
  /// outlives it.
  replanner(trainer& run, std::int64_t every);
  /// The run is left alone from here on.
  ~replanner();
  replanner(const replanner&) = delete;
  replanner& operator=(const replanner&) = delete;

  /// To be attached to the run: gathers the costs, and searches.
  monitor watch() const;
  /// `{"schedule": NAME}`, `{"text": FORM, "source": NAME}` or `{"search":
  /// true}`, with `{"sizes": ENTRIES, "memory_limit": BYTES}` for a search ->
  /// `{"schedule", "taken", "now", "then"}`: times of a step on paper, in ms,
  /// null before the first step. Throws `error`.
  nlohmann::json answer(const nlohmann::json& request) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::cli
