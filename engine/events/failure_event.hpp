#pragma once

#include <fmt/format.h>

#include <string>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// The failure that ended a step: of an op, or of something else.
struct failure_event {
  static constexpr auto kind = "failure";

  event_source source;
  std::string op;  // "1F2"; empty outside ops
  std::string reason;

  bool wanted_by(const subscription& wants) const { return wants.warnings; }
  std::string text() const {
    return fmt::format("{}: {} failed: {}\n", source_text(source), op, reason);
  }
};
TROUPE_FIELDS(failure_event, source, op, reason)

}  // namespace troupe
