#pragma once

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// Logs slow loads, with the time that they took.
monitor warning_monitor();

}  // namespace troupe
