#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The version of its stage's parameters that a forward reads: 0 is that of the
/// step's begin, n that of the stage's n-th update. The plan's dependencies
/// tell, so that every order of execution reads the same.
std::int32_t version_of(const plan& plan, const plan_op& forward);

/// By stage, then microbatch.
std::vector<std::vector<std::int32_t>> versions_of(const plan& plan);

/// By how many updates a version lags behind the one that a plain loop, which
/// runs one microbatch after the other, would read: the most over all forwards
/// of a stage. By stage; all 0 where the parameters change at the step's end
/// only.
std::vector<std::int32_t> staleness_of(const plan& plan);

}  // namespace troupe
