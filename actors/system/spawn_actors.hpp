#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/system/address_book.hpp"
#include "troupe/actors/system/local_actors.hpp"
#include "troupe/actors/system/strand.hpp"

namespace troupe {

/// One a rank.
using strand_list = std::vector<std::unique_ptr<strand>>;

/// Spawns the actors of a run that live in this process, and fills the book
/// with them. The strands must outlive the system.
void spawn_actors(caf::actor_system& system, const pipeline_options& options,
                  const supervision& watch, std::uint64_t run_id,
                  const address_book_pointer& book, strand_list& strands);

}  // namespace troupe
