#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// A named mean over a step: a loss or a model's own metric. `value` is the
/// mean of the counted items, `count` its weight when means are merged.
struct named_value {
  std::string name;
  double value = 0;
  double count = 1;
};
TROUPE_FIELDS(named_value, name, value, count)
template <>
inline constexpr bool travels_as_row<named_value> = true;

/// Merges a value into the mean of that name, weighted by counts; a count of 0
/// changes nothing.
void merge(std::vector<named_value>& target, const named_value& value);

/// The outcome of a step.
struct step_event {
  static constexpr auto kind = "step";

  event_source source;
  std::vector<named_value> losses{};   // the optimised one first
  std::vector<named_value> metrics{};  // the model's own
  double gradient_norm = 0;            // before clipping; training only
  double learning_rate = 0;
  double loss_scale = 1;
  bool updated = false;  // false: skip_step, evaluation, or an overflow
  std::int64_t tokens = 0;
  std::int64_t begin = 0;  // host ns
  std::int64_t end = 0;
  std::int64_t resident_bytes = 0;
  /// Whether all monitors that want tensors saw them, not only those exempt
  /// from a budget.
  bool observed = false;
  /// Time that the step's own threads spent on monitors, all ranks together.
  double observe_seconds = 0;
  /// Processor time of the monitors' own threads since the step before.
  double monitor_seconds = 0;

  bool wanted_by(const subscription& wants) const {
    return wants.steps && wants.covers_step(source.step);
  }
};
TROUPE_FIELDS(step_event, source, losses, metrics, gradient_norm, learning_rate,
              loss_scale, updated, tokens, begin, end, resident_bytes, observed,
              observe_seconds, monitor_seconds)

}  // namespace troupe
