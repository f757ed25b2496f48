#include "troupe/actors/rank/rank_actor.hpp"

namespace troupe {

caf::behavior rank_actor(caf::event_based_actor* self,
                         const rank_members_pointer& members) {
  const auto on = [self, members](const auto& message) {
    members->handle(self, none, [&] { members->rank().on(message); });
  };
  return behavior_of<rank_handle>(
    [on](const begin_step& message) { on(message); },
    [on](const norm_known& message) { on(message); });
}

}  // namespace troupe
