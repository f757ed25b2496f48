#include "troupe/actors/rank/rank_actors.hpp"

namespace troupe {

behavior_for<stage_handle> stage_actor(caf::event_based_actor* self,
                                       stage_instance stage,
                                       const rank_members_pointer& members) {
  const auto on_rank = [self, members](const auto& message) {
    members->handle(self, {none}, [&] { members->rank().on(message); });
  };
  return behavior_by<stage_handle, stage_tensors, loaded_data, chosen_tokens,
                     collective_result>(
    [self, members, stage](auto& message) {
      members->receive(self, stage, std::move(message));
    },
    [self, members, stage](run_op& request) {
      members->handle(self, stage,
                      [&] { members->rank().run(stage, std::move(request)); });
    },
    [on_rank](const begin_step& message) { on_rank(message); },
    [on_rank](const norm_verdict& message) { on_rank(message); });
}

}  // namespace troupe
