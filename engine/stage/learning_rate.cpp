#include "troupe/engine/stage/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace troupe
