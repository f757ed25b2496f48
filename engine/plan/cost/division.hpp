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

/// Uses the mean number of stages per rank where ranks hold different numbers.
division division_of(const plan& plan);
division division_of(const schedule_shape& shape);

}  // namespace troupe
