#pragma once

#include "troupe/actors/address_book.hpp"
#include "troupe/actors/rank_setup.hpp"

namespace troupe {

/// One rank of one replica. See `rank_runner` for what it does.
caf::behavior rank_actor(caf::event_based_actor* self, const rank_setup& setup,
                         const address_book_pointer& book,
                         const handler_hook& hook);

}  // namespace troupe
