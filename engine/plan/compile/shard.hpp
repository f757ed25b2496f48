#pragma once

#include <cstdint>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The plan with the parameters of each stage sharded over the data ranks, as
/// torch.distributed.pipelining lowers schedules (its `_add_unshard_reshard`):
/// stages begin in shards; before each op the next `most_whole` stages that the
/// rank will run are made whole (UNSHARD), in the order of their use, and
/// others dropped (RESHARD); all are dropped at the end. A pair may make one
/// more whole. Throws `error` (invalid_argument) for a plan that gathers
/// already, or that updates within a step. Time is linear in the number of ops,
/// if ranks hold few stages.
plan sharded(const plan& whole, std::int32_t most_whole = 3);

/// The plan with the gradients and the optimizer's state of each stage sharded,
/// but not its parameters (ZeRO 1 and 2): each update, of a shard, is followed
/// by a gather. Throws as `sharded`.
plan sharded_updates(const plan& whole);

}  // namespace troupe
