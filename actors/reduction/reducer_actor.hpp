#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/system/address_book.hpp"

namespace troupe {

/// Averages one stage's gradients over its replicas, and gives the mean to
/// those of this process. `owners`: the process of each replica.
caf::behavior reducer_actor(caf::event_based_actor* self,
                            const std::vector<std::int32_t>& owners,
                            const address_book_pointer& book,
                            const handler_hook& hook);

}  // namespace troupe
