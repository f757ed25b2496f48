#pragma once

#include "troupe/actors/step/loader_core.hpp"
#include "troupe/actors/system/address_book.hpp"

namespace troupe {

/// One replica's data loader. See `loader_core` for what it does.
caf::behavior loader_actor(caf::event_based_actor* self, loader_setup setup,
                           const address_book_pointer& book,
                           const handler_hook& hook);

}  // namespace troupe
