#pragma once

#include <variant>

#include "troupe/engine/events/dropped_event.hpp"
#include "troupe/engine/events/failure_event.hpp"
#include "troupe/engine/events/memory_event.hpp"
#include "troupe/engine/events/messages_event.hpp"
#include "troupe/engine/events/ops_event.hpp"
#include "troupe/engine/events/slow_load_event.hpp"
#include "troupe/engine/events/step_event.hpp"
#include "troupe/engine/events/tensors_event.hpp"

namespace troupe {

/// What monitors see. Each is a file of its own, and listed here. It has
///   kind         its name in JSON
///   source       where it happened
///   fields       what travels (base/fields.hpp)
///   wanted_by    whether a subscription asks for it
///   text         optional: lines for a person
///   list         optional: a member that may be too long for one frame
using event =
  std::variant<ops_event, messages_event, memory_event, tensors_event,
               step_event, slow_load_event, failure_event, dropped_event>;

inline const event_source& source_of(const event& what) {
  return std::visit(
    [](const auto& held) -> const event_source& { return held.source; }, what);
}

}  // namespace troupe
