#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The backward of the overlapped pair that an op of the plan begins: the next
/// compute op of its lane. None if it begins no pair.
std::optional<std::uint32_t> partner_of(const plan& plan, std::uint32_t first);

/// On a device a rank may have two compute streams, and each of its stage
/// instances uses one of them, so that the ops of a pair run at once. Which
/// one, 0 or 1, of each instance, as `placement::instances` lists them: 0 for
/// all of a rank whose pairs can't all be of both streams, or that has none;
/// else 0 for the first instance of each group that pairs connect, and for
/// instances without pairs.
std::vector<std::uint8_t> compute_streams(const plan& plan);

}  // namespace troupe
