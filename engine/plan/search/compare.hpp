#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

namespace troupe {

/// The job for which schedules are compared. Costs and sizes are those of one
/// rank's layers and a whole microbatch: a schedule with several stages a rank
/// divides them among these, and among slices; a message's cost among slices.
struct comparison {
  /// `stages_per_rank` and `slices` are for schedules that take several; others
  /// use the nearest number that they take.
  schedule_shape shape{};
  op_costs costs{};
  std::optional<stage_sizes> sizes{};
  std::int32_t data_parallel = 1;
};

/// One schedule on paper; times in the unit of the costs.
struct compared_schedule {
  std::string name{};
  schedule_shape shape{};
  double makespan = 0;
  double period = 0;
  double idle = 0;  // part of the makespan, over all ranks
  /// The most forwards not yet freed on a rank, as microbatches of all its
  /// layers.
  double in_flight = 0;
  double peak_bytes = 0;  // of the rank that holds most; 0 without sizes
  std::size_t messages = 0;
  std::string refused{};  // why there is none for this shape; empty: there is
};

/// A schedule of the job, in a row with its name and shape.
compared_schedule compared(const schedule& lanes, const comparison& job,
                           compared_schedule row);

/// The catalogue's schedules for training, the shortest period first, of equal
/// ones that with fewer activations; then those that are refused. Throws
/// `error` (invalid_argument) for costs of single stages or ops.
std::vector<compared_schedule> compare_schedules(const comparison& job);

}  // namespace troupe
