#pragma once

#include "troupe/actors/rank/rank_members.hpp"

namespace troupe {

/// One stage of one replica: runs the ops that `stage_runner` describes. What
/// others send it for them goes to its rank's `rank_runner`.
caf::behavior stage_actor(caf::event_based_actor* self, stage_instance stage,
                          const rank_members_pointer& members);

}  // namespace troupe
