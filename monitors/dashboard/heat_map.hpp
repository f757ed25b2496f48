#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// The statistics of all tensors of one kind that an op showed, together.
struct heat_cell {
  double max_abs = 0;
  double squares = 0;  // sum of x^2
  double sum = 0;
  std::int64_t finite = 0;
  std::int64_t not_finite = 0;
  bool seen = false;

  void add(const tensor_statistics& statistics) {
    seen = true;
    max_abs = std::max(max_abs, statistics.max_abs);
    squares += statistics.l2() * statistics.l2();
    sum += statistics.mean * static_cast<double>(statistics.finite());
    finite += statistics.finite();
    not_finite += statistics.nans + statistics.infs;
  }
};

/// A step's statistics by stage and microbatch, the latter counted over all
/// replicas. At most 16384 cells; what is beyond is left out.
struct heat_map {
  static constexpr std::int32_t most_stages = 256;
  static constexpr std::int32_t most_cells = 16384;

  heat_map() = default;
  heat_map(std::int32_t all_stages, std::int32_t of_replica,
           std::int32_t data_ranks)
    : stages(std::min(all_stages, most_stages)),
      microbatches(of_replica),
      wanted(std::int64_t{all_stages} * of_replica * data_ranks) {
    columns = static_cast<std::int32_t>(std::min<std::int64_t>(
      std::int64_t{of_replica} * data_ranks, most_cells / std::max(stages, 1)));
    activations.resize(static_cast<std::size_t>(stages)
                       * static_cast<std::size_t>(columns));
    gradients = activations;
  }

  void add(const tensors_event& op) {
    const auto& place = op.source;
    const auto column =
      std::int64_t{place.data_rank} * microbatches + place.microbatch;
    if (place.stage < 0 || place.stage >= stages || place.microbatch < 0
        || column >= columns)
      return;
    const auto cell =
      static_cast<std::size_t>(place.stage) * static_cast<std::size_t>(columns)
      + static_cast<std::size_t>(column);
    step = place.step;
    for (const auto& record : op.tensors) {
      if (record.content != tensor_content::tensor)
        continue;
      if (record.kind == tensor_kind::activation)
        activations[cell].add(record.statistics);
      else if (record.kind == tensor_kind::activation_gradient)
        gradients[cell].add(record.statistics);
    }
  }
  bool is_cut() const {
    return static_cast<std::int64_t>(activations.size()) < wanted;
  }

  std::int64_t step = 0;
  std::int32_t stages = 0;        // rows that are kept
  std::int32_t columns = 0;       // that are kept
  std::int32_t microbatches = 1;  // of a replica
  std::int64_t wanted = 0;        // cells without the limit
  // Row by row.
  std::vector<heat_cell> activations{};
  std::vector<heat_cell> gradients{};  // of activations
};

}  // namespace troupe
