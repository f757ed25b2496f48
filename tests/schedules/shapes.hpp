#pragma once

#include <algorithm>

#include "troupe/schedules/builtin.hpp"

namespace troupe::testing {

constexpr bool takes(const size_rule& rule, std::int32_t value) {
  return value >= rule.least && value <= rule.most
         && !(rule.even && value % 2 != 0);
}

constexpr bool takes(const builtin_schedule& row, const schedule_shape& shape) {
  return takes(row.ranks, shape.ranks)
         && takes(row.stages_per_rank, shape.stages_per_rank)
         && takes(row.microbatches, shape.microbatches)
         && shape.microbatches >= row.microbatches_for_a_rank * shape.ranks
         && (row.has_slices || shape.slices == 1);
}

/// A small shape that a schedule supports: 2 ranks, 4 microbatches, and two
/// stages per rank and two slices if possible.
constexpr schedule_shape small_shape(const builtin_schedule& row) {
  return {.ranks = 2,
          .stages_per_rank = std::min(2, row.stages_per_rank.most),
          .microbatches = 4,
          .slices = row.has_slices ? 2 : 1};
}

/// Calls `visit` for P in 1..8, V in 1..4, 1 to 4 slices and m in 1..3P+1.
template <class Visit>
void for_all_shapes(Visit visit) {
  for (std::int32_t ranks = 1; ranks <= 8; ++ranks)
    for (std::int32_t stages = 1; stages <= 4; ++stages)
      for (std::int32_t slices = 1; slices <= 4; ++slices)
        for (std::int32_t m = 1; m <= 3 * ranks + 1; ++m)
          visit(schedule_shape{.ranks = ranks,
                               .stages_per_rank = stages,
                               .microbatches = m,
                               .slices = slices});
}

}  // namespace troupe::testing
