#pragma once

#include "troupe/actors/monitoring/message_types.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// A monitor that is a CAF actor of the user's own, in an actor system of the
/// user's own, which must outlive the run. The actor is sent a `monitor_event`
/// for each event, one at a time: the next follows when it has answered, as an
/// actor does by returning from its handler, or later by a promise. Events wait
/// in the meantime, within `limits`. An actor that does not answer within
/// `limits.stuck_seconds`, fails or ends is detached, with a warning; the run
/// goes on. After `trainer::detach` or `finish_monitors` it gets no more.
///
/// Messages of the user's own have type ids from caf::first_custom_type_id up
/// to 1999 (message_types.hpp). Throws `invalid_argument` for a null actor.
monitor actor_monitor(std::string name, caf::actor watcher, subscription wants,
                      const monitor_limits& limits = {});

}  // namespace troupe
