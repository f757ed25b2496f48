#pragma once

#include "troupe/engine/plan/compile/check_lanes.hpp"

namespace troupe {

/// Checks the offloads and reloads of a plan's lanes, whose compute ops are
/// legal: each goes once, behind its forward, and returns before the backward
/// that needs it. Throws `error` (invalid_schedule) with the op's place.
void check_copies(const plan& plan, const op_locator& locate);

}  // namespace troupe
