#include "troupe/actors/rank/rank_actor.hpp"

namespace troupe {

caf::behavior rank_actor(caf::event_based_actor* self,
                         const rank_members_pointer& members) {
  const auto handle = [self, members](const auto& message) {
    members->handle(self, {none}, [&] { members->rank().on(message); });
  };
  return behavior_of<rank_handle>(
    [handle](const begin_step& message) { handle(message); },
    [handle](const norm_known& message) { handle(message); });
}

}  // namespace troupe
