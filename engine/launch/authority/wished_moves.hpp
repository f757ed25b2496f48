#pragma once

#include <vector>

#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/membership/choose_hosting.hpp"

namespace troupe {

/// The moves that make the hosting of the epoch that runs the one that a user
/// wants; none if the wish does not fit it: one of an earlier epoch speaks of
/// other processes.
std::vector<membership::rank_move> wished_moves(const hosting_request& wish,
                                                const membership::epoch& now);

}  // namespace troupe
