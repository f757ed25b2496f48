#pragma once

#include "troupe/actors/address_book.hpp"

namespace troupe {

/// One rank of one replica. See `rank_core` for what it does.
caf::behavior rank_actor(caf::event_based_actor* self, std::int32_t data_rank,
                         std::int32_t rank, const address_book_pointer& book,
                         const handler_hook& hook);

}  // namespace troupe
