#include "troupe/engine/stage/update/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "troupe/base/error.hpp"

namespace troupe {

double learning_rate_schedule::at(std::int64_t step, double base) const {
  if (step <= warmup_steps)
    return base * static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (decay == shape::constant || total_steps <= warmup_steps)
    return base;
  const auto done =
    std::min(1.0, static_cast<double>(step - warmup_steps)
                    / static_cast<double>(total_steps - warmup_steps));
  const auto left = decay == shape::linear
                      ? 1 - done
                      : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return base * (final_fraction + (1 - final_fraction) * left);
}

void require_legal(const learning_rate_schedule& schedule) {
  if (schedule.warmup_steps < 0 || schedule.total_steps < 0)
    fail(error_code::invalid_argument,
         "the learning rate has {} steps of warm-up and {} in all; use 0 or "
         "more of each",
         schedule.warmup_steps, schedule.total_steps);
  if (!std::isfinite(schedule.final_fraction) || schedule.final_fraction < 0)
    fail(error_code::invalid_argument,
         "the last learning rate is {} times the first; use a finite number, "
         "0 or more",
         schedule.final_fraction);
}

}  // namespace troupe
