#pragma once

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// The compute ops of a schedule alone, of a chain of stages: a dependency is
/// the op that makes an input, on whatever rank, and there are no messages. For
/// lanes that `compile` refuses, as they wait for each other: `verify` finds
/// their cycle.
plan lane_plan(const schedule& lanes);

}  // namespace troupe
