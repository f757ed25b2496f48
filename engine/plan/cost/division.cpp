#include "troupe/engine/plan/cost/division.hpp"

#include <algorithm>

namespace troupe {

division division_of(const plan& plan) {
  return {.stages = std::max(1.0, static_cast<double>(plan.stages())
                                    / static_cast<double>(plan.ranks())),
          .slices = static_cast<double>(plan.slices)};
}

division division_of(const schedule_shape& shape) {
  return {.stages = static_cast<double>(shape.stages_per_rank),
          .slices = static_cast<double>(shape.slices)};
}

}  // namespace troupe
