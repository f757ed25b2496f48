#pragma once

#include "troupe/actors/coordinator_actor.hpp"
#include "troupe/actors/pipeline.hpp"

namespace troupe {

/// Makes all actors of a run that live in this process and introduces them to
/// each other.
address_book_pointer assemble_crew(caf::actor_system& system,
                                   const pipeline_options& options,
                                   const supervision& watch,
                                   std::uint64_t run_id);

/// Tells all of them to end.
void dismiss(address_book& book);

}  // namespace troupe
