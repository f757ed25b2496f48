#pragma once

#include "troupe/actors/address_book.hpp"

namespace troupe {

/// One stage's reducer over the replicas. See `reducer_core`.
caf::behavior reducer_actor(caf::event_based_actor* self,
                            std::int32_t data_ranks,
                            const address_book_pointer& book,
                            const handler_hook& hook);

}  // namespace troupe
