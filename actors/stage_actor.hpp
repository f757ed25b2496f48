#pragma once

#include "troupe/actors/address_book.hpp"
#include "troupe/actors/stage_runner.hpp"

namespace troupe {

/// One stage of one replica. See `stage_runner` for what it does.
caf::behavior stage_actor(caf::event_based_actor* self,
                          const stage_setup& setup,
                          const address_book_pointer& book,
                          const handler_hook& hook);

}  // namespace troupe
