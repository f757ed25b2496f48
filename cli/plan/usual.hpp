#pragma once

#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// Defaults of `plan`, `simulate` and `train`.
inline constexpr auto usual_schedule = "1f1b";
inline constexpr schedule_shape usual_shape{
  .ranks = 2, .stages_per_rank = 1, .microbatches = 8};

}  // namespace troupe::cli
