#include "troupe/actors/rank/rank_actors.hpp"

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

caf::behavior stage_actor(caf::event_based_actor* self, stage_instance stage,
                          const rank_members_pointer& members) {
  const auto receive = [self, members, stage](auto& message) {
    members->receive(self, stage, std::move(message));
  };
  return behavior_of<stage_handle>(
    [self, members, stage](run_op& request) {
      members->handle(self, stage,
                      [&] { members->run_op_of(stage, std::move(request)); });
    },
    [receive](stage_tensors& message) { receive(message); },
    [receive](loaded_data& message) { receive(message); },
    [receive](chosen_tokens& message) { receive(message); },
    [receive](collective_result& message) { receive(message); },
    [self, members, stage](end_step& message) {
      members->handle(self, stage, [&] {
        members->rank().on(members->stage(stage).on(std::move(message)));
      });
    });
}

}  // namespace troupe
