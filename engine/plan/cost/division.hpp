#pragma once

#include <cstdint>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// How the work of a rank's layers on a microbatch is cut into ops: schedules
/// of different shapes are compared by equal work. The default cuts nothing.
struct division {
  double stages = 1;  // per rank
  double slices = 1;  // per microbatch
};

/// Of a plan whose ranks hold different numbers of stages, their mean.
division division_of(const plan& plan);
division division_of(const schedule_shape& shape);

}  // namespace troupe
