#pragma once

#include <fmt/format.h>

#include <string>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// A microbatch took longer to load than the warning threshold.
struct slow_load_event {
  static constexpr auto kind = "slow_load";

  event_source source;
  double seconds = 0;

  bool wanted_by(const subscription& wants) const { return wants.warnings; }
  std::string text() const {
    return fmt::format("{}: loading took {:.3f} s\n", source_text(source),
                       seconds);
  }
};
TROUPE_FIELDS(slow_load_event, source, seconds)

}  // namespace troupe
