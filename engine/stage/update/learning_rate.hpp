#pragma once

#include <cstdint>

namespace troupe {

/// Learning rate by step (counted from 1): linear warm-up over
/// `warmup_steps`, then constant, or a cosine or a line down to
/// `final_fraction` of the base rate at `total_steps`.
struct learning_rate_schedule {
  enum class shape : std::uint8_t { constant, cosine, linear };

  shape decay = shape::constant;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // 0: no decay
  double final_fraction = 0.1;

  double at(std::int64_t step, double base) const;
};

/// Throws `invalid_argument` for negative steps or fractions.
void require_legal(const learning_rate_schedule& schedule);

}  // namespace troupe
