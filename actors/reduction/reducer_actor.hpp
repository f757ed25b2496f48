#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/reduction/tied_links.hpp"
#include "troupe/actors/system/address_book.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

/// The members of a stage's group.
struct stage_group {
  std::vector<std::int32_t> owners;  // their processes, by replica, then copy
  gradient_mean mean;                // over replicas
};

/// Makes the collectives of a group, and gives the results to its members of
/// this process.
caf::behavior reducer_actor(caf::event_based_actor* self,
                            const stage_group& group,
                            const address_book_pointer& book,
                            const handler_hook& hook);
caf::behavior tied_reducer_actor(caf::event_based_actor* self,
                                 const tied_group& group,
                                 const address_book_pointer& book,
                                 const handler_hook& hook);

}  // namespace troupe
