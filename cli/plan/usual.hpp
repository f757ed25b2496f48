#pragma once

#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// Defaults of `plan`, `simulate` and `train`.
inline constexpr auto usual_schedule = "1f1b";
inline constexpr auto usual_schedule_of_slices = "seq_1f1b";
inline constexpr auto usual_schedules = "1f1b; with --slices, seq_1f1b";
inline constexpr schedule_shape usual_shape{
  .ranks = 2, .stages_per_rank = 1, .microbatches = 8};

}  // namespace troupe::cli
