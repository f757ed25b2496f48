#pragma once

#include "troupe/actors/rank/rank_members.hpp"

namespace troupe {

/// One rank of one replica: begins its steps and ends them. See `rank_runner`.
caf::behavior rank_actor(caf::event_based_actor* self,
                         const rank_members_pointer& members);

}  // namespace troupe
