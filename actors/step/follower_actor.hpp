#pragma once

#include "troupe/actors/step/coordinator_actor.hpp"

namespace troupe {

/// The coordinator of a process that doesn't lead its job: begins the steps
/// that process 0 begins, hands on what its ranks report, and answers each
/// `run_step` with the outcome that process 0 tells. A program that runs
/// another step than process 0 does is an error that names the difference.
caf::behavior follower_actor(caf::event_based_actor* self,
                             const supervision& watch,
                             const address_book_pointer& book,
                             const handler_hook& hook);

}  // namespace troupe
