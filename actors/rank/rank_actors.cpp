#include "troupe/actors/rank/rank_actors.hpp"

namespace troupe {

behavior_for<rank_handle> rank_actor(caf::event_based_actor* self,
                                     const rank_members_pointer& members) {
  return behavior_by<rank_handle, begin_step, norm_verdict>(
    [self, members](const auto& message) {
      members->handle(self, {none}, [&] { members->rank().on(message); });
    });
}

behavior_for<stage_handle> stage_actor(caf::event_based_actor* self,
                                       stage_instance stage,
                                       const rank_members_pointer& members) {
  return behavior_by<stage_handle, stage_tensors, loaded_data, chosen_tokens,
                     collective_result>(
    [self, members, stage](auto& message) {
      members->receive(self, stage, std::move(message));
    },
    [self, members, stage](run_op& request) {
      members->handle(self, stage,
                      [&] { members->rank().run(stage, std::move(request)); });
    });
}

}  // namespace troupe
