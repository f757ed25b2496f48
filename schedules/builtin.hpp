#pragma once

#include <string_view>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// One row of the table of built-in schedules.
struct builtin_schedule {
  std::string_view name;
  std::string_view summary;
  std::string_view accepts;  // ranks P, stages a rank V, microbatches m
  schedule (*make)(const schedule_shape&);
  /// Most stages that a rank may hold.
  std::int32_t most_stages_per_rank = INT32_MAX;
  /// Whether the schedule uses `schedule_shape::breadth`.
  bool has_breadth = false;
};

const std::vector<builtin_schedule>& builtin_schedules();

/// Makes a built-in schedule. Throws `error`: unknown_schedule with the known
/// names; invalid_argument, with the nearest legal values, if the schedule
/// can't have this shape.
schedule make_schedule(std::string_view name, const schedule_shape& shape);

}  // namespace troupe
