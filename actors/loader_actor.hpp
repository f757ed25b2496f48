#pragma once

#include "troupe/actors/address_book.hpp"
#include "troupe/actors/loader_core.hpp"

namespace troupe {

/// One replica's data loader. See `loader_core` for what it does.
caf::behavior loader_actor(caf::event_based_actor* self, loader_setup setup,
                           const address_book_pointer& book,
                           const handler_hook& hook);

}  // namespace troupe
