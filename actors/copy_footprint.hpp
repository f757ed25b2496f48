#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

struct trainer_options;

/// The bytes of the state of each stage that is copied in a job that heals: of
/// its parameters, its buffers and its optimizer's state, once all parameters
/// have had gradients. Options as `trainer` takes them, with a split. Of shards
/// it is the mean.
std::vector<std::int64_t> state_bytes(const model& layers,
                                      const trainer_options& options);

/// The memory of copies in a job that heals, in bytes.
struct copy_footprint {
  std::vector<std::int64_t> ranks;      // one state of each rank, by number
  std::vector<std::int64_t> processes;  // what each process holds in all
};

/// From the second copy on. `stages`: the bytes of each stage's state.
copy_footprint copies_in(const std::vector<std::int64_t>& stages,
                         const placement& places, const job_layout& layout,
                         bool sharded);

}  // namespace troupe
