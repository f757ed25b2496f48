#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/schedules/cell.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// The compute ops of parsed lines, checked; other cells are skipped.
schedule compute_lanes(const std::vector<std::vector<cell>>& rows,
                       std::string_view source);

/// "SOURCE, line 2, cell 5 (rank 1)": the cell that holds op `index` of a
/// rank, where each cell holds `ops_in` ops.
std::string locate_cell(const std::vector<std::vector<cell>>& rows,
                        std::string_view source, std::int32_t rank,
                        std::size_t index, std::size_t (*ops_in)(const cell&));

}  // namespace troupe
