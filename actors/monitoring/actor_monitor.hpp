#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/type_id.hpp>

#include <memory>
#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// An event of a run, as a monitor that is an actor is sent it.
struct monitor_event {
  std::shared_ptr<const event> what;
};

/// A monitor that is a CAF actor of the user's own, in an actor system of the
/// user's own, which must outlive the run. The actor is sent a `monitor_event`
/// for each event, one at a time: the next follows when it has answered, as an
/// actor does by returning from its handler, or later by a promise. Events wait
/// in the meantime, within `limits`. An actor that does not answer within
/// `limits.stuck_seconds`, fails or ends is detached, with a warning; the run
/// goes on. After `trainer::detach` or `finish_monitors` it gets no more.
///
/// Messages of the user's own have type ids from caf::first_custom_type_id up
/// to 1999; troupe's are registered before main(), so that CAF's table of types
/// need not grow while an actor system runs. Throws `invalid_argument` for a
/// null actor.
monitor actor_monitor(std::string name, caf::actor watcher, subscription wants,
                      const monitor_limits& limits = {});

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_public, 2200)
CAF_ADD_TYPE_ID(troupe_public, (troupe::monitor_event))
CAF_END_TYPE_ID_BLOCK(troupe_public)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::monitor_event)
