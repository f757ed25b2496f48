#pragma once

#include "troupe/engine/plan/compile.hpp"

namespace troupe {

// The passes of `compile`, each of which fills a part of the plan.

/// Writes every rank's ops: compute ops in lane order; each send right after
/// its producer; each receive where its message is sent when all ranks walk
/// in step, one op each a turn; reductions after a stage's last backward;
/// norms and updates at the end.
///
/// That walk is one order in which every transfer could take place with both
/// its ends present, so a plan makes progress even where both ends block;
/// and it is as far ahead of the consumer as a receive can be posted safely.
void place_ops(const schedule& lanes, const compile_options& options,
               plan& result);

/// Numbers messages and channels, and lists dependencies, of ops that are
/// placed. Throws `error` (internal) where a send or receive has no other end:
/// `check_lanes` refuses such lanes of a file.
void connect(plan& result);

/// Sets each channel's bound and its credits; `limit` 0 is no limit.
void grant_credits(plan& result, std::int32_t limit);

}  // namespace troupe
