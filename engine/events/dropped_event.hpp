#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// In a monitor's own stream: the monitor was too slow, and so many events
/// before this one were dropped. The next event begins a step.
struct dropped_event {
  static constexpr auto kind = "dropped";

  event_source source;
  std::int64_t count = 0;

  bool wanted_by(const subscription&) const { return true; }
  std::string text() const {
    return fmt::format(
      "{}: {} events were dropped here: the receiver is too slow\n",
      source_text(source), count);
  }
};
TROUPE_FIELDS(dropped_event, source, count)

}  // namespace troupe
