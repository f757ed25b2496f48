#pragma once

#include <limits>
#include <map>
#include <memory>

#include "troupe/actors/monitoring/event_board.hpp"
#include "troupe/actors/monitoring/monitor_thread.hpp"
#include "troupe/actors/system/handles.hpp"

namespace troupe {

/// Asks the hub to hand events to a monitor; it answers true.
struct attach_monitor {
  std::int64_t id = 0;
  std::shared_ptr<monitor_thread> what;
};
/// The hub answers with the monitor, for whoever asks to let it finish; null
/// if there is none of that number. `after_step`: it answers with null, and the
/// monitor gets the events of the step that runs, but of no later one.
struct detach_monitor {
  std::int64_t id = 0;
  bool after_step = false;
};
struct detached_monitor {
  std::shared_ptr<monitor_thread> what;
};

/// A monitor of a hub.
struct hub_monitor {
  std::shared_ptr<monitor_thread> what;
  std::int64_t since = 0;  // the epoch from which on it sees steps
  /// The epoch from which on it sees none.
  std::int64_t until = std::numeric_limits<std::int64_t>::max();
  bool leaves = false;
  bool gone = false;  // failed; kept for whoever detaches it
};
/// The last steps whose outcome monitors have seen.
struct seen_steps {
  std::int64_t training = 0;
  std::int64_t validation = 0;
};
/// Asked to hand its monitors over, a hub answers with them, by id, for the hub
/// that takes its place.
struct hub_monitors {
  std::map<std::int64_t, hub_monitor> by_id{};
  seen_steps seen{};
};
struct hand_over_monitors {};

using event_hub_handle =
  caf::typed_actor<caf::result<void>(publish_event),
                   caf::result<bool>(attach_monitor),
                   caf::result<detached_monitor>(detach_monitor),
                   caf::result<hub_monitors>(hand_over_monitors)>;

/// Hands events to the monitors that asked for them. It waits for nobody, and
/// no step waits for it. Monitors that fail are unsubscribed and reported.
/// `so_far`: of the hub whose place it takes; what a job that has healed
/// repeats of the steps that it has seen is not handed on.
behavior_for<event_hub_handle> event_hub_actor(
  caf::event_based_actor* self, std::shared_ptr<event_board> board,
  hub_monitors so_far);

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_monitors, caf::id_block::troupe::end)
TROUPE_ADD_MESSAGE(troupe_monitors, attach_monitor)
TROUPE_ADD_MESSAGE(troupe_monitors, detach_monitor)
TROUPE_ADD_MESSAGE(troupe_monitors, detached_monitor)
TROUPE_ADD_MESSAGE(troupe_monitors, hand_over_monitors)
TROUPE_ADD_MESSAGE(troupe_monitors, hub_monitors)
CAF_END_TYPE_ID_BLOCK(troupe_monitors)
