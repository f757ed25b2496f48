#pragma once

#include <memory>

#include "troupe/actors/caf.hpp"
#include "troupe/actors/event_board.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// A monitor as the hub knows it.
struct attach_monitor {
  std::int64_t id = 0;
  monitor what;
};
struct detach_monitor {
  std::int64_t id = 0;
};

/// Hands events to the monitors that asked for them, each an actor of its
/// own. A monitor may have `backlog_limit` events waiting; what comes beyond
/// is dropped for it, counted, and reported when it is detached. A step never
/// waits for the hub.
caf::behavior event_hub_actor(caf::event_based_actor* self,
                              std::shared_ptr<event_board> board);

inline constexpr std::int64_t backlog_limit = 4096;

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_monitors, caf::id_block::troupe::end)
CAF_ADD_TYPE_ID(troupe_monitors, (troupe::attach_monitor))
CAF_ADD_TYPE_ID(troupe_monitors, (troupe::detach_monitor))
CAF_END_TYPE_ID_BLOCK(troupe_monitors)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::attach_monitor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::detach_monitor)
