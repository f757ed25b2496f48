#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/system/address_book.hpp"
#include "troupe/engine/stage/gradient_mean.hpp"

namespace troupe {

/// Reduces one stage's gradients over the members of its group, its copies in
/// all replicas, and gives the result to those of this process. `owners`: the
/// process of each member, by replica, then copy.
caf::behavior reducer_actor(caf::event_based_actor* self,
                            const std::vector<std::int32_t>& owners,
                            gradient_mean mean,
                            const address_book_pointer& book,
                            const handler_hook& hook);

}  // namespace troupe
