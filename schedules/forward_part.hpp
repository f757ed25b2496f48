#pragma once

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// The same schedule without its backwards: for validation and inference on
/// the same placement, in the same order of forwards.
schedule forward_part(const schedule& whole);

}  // namespace troupe
