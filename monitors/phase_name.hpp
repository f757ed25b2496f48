#pragma once

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// As files name it.
constexpr const char* phase_name(phase phase) {
  switch (phase) {
    case phase::training:
      return "training";
    case phase::validation:
      return "validation";
    default:
      return "inference";
  }
}

}  // namespace troupe
