#pragma once

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Forwards of a step that generates tokens, on any placement: slices are
/// positions, one after the other, and each but a microbatch's first begins
/// with what the last stage made of the one before. So every rank runs a
/// position of all microbatches before the next one: in groups of as many as
/// there are ranks, by ascending stage within a group. With at least that many
/// microbatches all ranks work. Copies of stages but the first are idle.
schedule generation_schedule(const placement& places, std::int32_t microbatches,
                             std::int32_t positions);

}  // namespace troupe
