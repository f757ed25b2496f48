#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "troupe/engine/plan/compile/compile.hpp"

namespace troupe {

// The passes of `compile`, each of which fills a part of the plan.

/// A plan of the schedule's sizes, of a chain of stages, which has no ops yet.
plan without_ops(const schedule& lanes);

/// Writes every rank's ops: compute ops in lane order; each send right after
/// its producer; each receive at the point where its message is sent when all
/// ranks advance in lockstep, one op per turn; a stage's reductions after
/// the last backward of all its copies; sums of tied gradients, norms and
/// updates at the end. With updates within a step these three follow the last
/// backward of the stage, or of all stages that hold tied parameters.
///
/// In that order every transfer, and every reduction over copies, can take
/// place with all its ends present, so a plan makes progress even if they
/// block; receives are posted as early as
/// is safe.
void place_ops(const schedule& lanes, const compile_options& options,
               plan& result);

/// Numbers messages and channels, and lists dependencies, of placed ops. Throws
/// `error` (internal) if a send or receive has no other end, as `check_lanes`
/// refuses such lanes in a file; (invalid_schedule) if there are more
/// dependencies than `most_dependencies`, by default half a GiB of them.
void connect(plan& result,
             std::size_t most_dependencies = std::size_t{1} << 27);

/// Sets each channel's bound and its credits; `limit` 0 means no limit.
void grant_credits(plan& result, std::int32_t limit);

/// The ops of a rank.
using lane_writer = std::function<std::vector<plan_op>(std::int32_t rank)>;

/// The plan with other ops around the same compute ops or none of
/// them: connected anew, with the credits that its channels have.
plan with_lanes(const plan& before, const lane_writer& lane_of);

}  // namespace troupe
