#pragma once

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

  void add(const tensor_statistics& statistics);
};

/// A step's statistics by stage and microbatch, the latter counted over all
/// replicas. At most 16384 cells; what is beyond is left out.
struct heat_map {
  heat_map() = default;
  heat_map(std::int32_t stages, std::int32_t microbatches,
           std::int32_t data_ranks);

  void add(const tensors_event& op);
  bool is_cut() const;

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
