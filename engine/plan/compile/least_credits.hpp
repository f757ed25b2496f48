#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What fewer credits must not spoil.
enum class credit_goal : std::uint8_t {
  progress,  // every op takes place
  makespan,  // ... and the step is not slower than without a limit
};

/// By channel, the least credits with which the plan keeps its progress, or its
/// makespan too, on a credited transport: no channel's can be lowered alone.
/// Other choices may exist, as a credit of one channel can stand in for another
/// one's. A message that waits for its credit holds up no op of its sender but
/// the sends behind it. Throws `error` (invalid_argument) if costs of single
/// ops don't fit the plan, (deadlock) if the plan has no progress with its
/// bounds.
std::vector<std::int32_t> least_credits(const plan& plan, credit_goal goal,
                                        op_costs costs = {});

}  // namespace troupe
