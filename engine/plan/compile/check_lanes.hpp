#pragma once

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

/// Checks the added ops of a plan that was read, whose compute ops are valid:
/// each result that leaves its rank has one send after its producer and one
/// receive before its consumer, in the same order on both ranks;
/// sharded stages are whole while they are used; gradients are reduced once,
/// after the last backward; activations are offloaded once, and reloaded before
/// their backward. Needs placement, sizes and ops; throws `error`
/// (invalid_schedule). `locate(rank, i)` describes the place of op i of a
/// rank's lane.
void check_lanes(const plan& plan, const op_locator& locate);

}  // namespace troupe
