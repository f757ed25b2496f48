#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Which numbers are legal.
struct size_rule {
  std::int32_t least = 1;
  std::int32_t most = INT32_MAX;
  bool even = false;
};

/// One row of the table of built-in schedules.
struct builtin_schedule {
  std::string_view name;
  std::string_view summary;
  std::string_view accepts;  // ranks P, stages a rank V, microbatches m
  schedule (*make)(const schedule_shape&);
  size_rule stages_per_rank{};
  size_rule ranks{};
  size_rule microbatches{};
  /// Least microbatches for each rank.
  std::int32_t microbatches_for_a_rank = 0;
  /// Whether the schedule uses `schedule_shape::breadth`.
  bool has_breadth = false;
  /// Whether it takes several `schedule_shape::slices`.
  bool has_slices = false;
  /// What `with_usual_sizes` chooses.
  std::int32_t usual_stages_per_rank = 1;
  std::int32_t usual_slices = 1;
};

const std::vector<builtin_schedule>& builtin_schedules();

/// The shape with this schedule's usual stages per rank and slices in place of
/// those that are 0: as many as make it differ from 1f1b. A name that is not
/// built in has one of each.
schedule_shape with_usual_sizes(std::string_view name, schedule_shape shape);

/// Makes a built-in schedule. Throws `error`: unknown_schedule with the valid
/// names; invalid_argument, with the nearest legal values, if the schedule
/// can't have this shape.
schedule make_schedule(std::string_view name, const schedule_shape& shape);

/// Resolves `--schedule NAME|FILE.csv`: a built-in schedule of this shape, or
/// the one in a file, which has its own shape. Throws `error`.
schedule find_schedule(const std::string& name_or_path,
                       const schedule_shape& shape);

/// Whether a name is a file's: it has a dot or a slash.
bool names_file(const std::string& name_or_path);

}  // namespace troupe
