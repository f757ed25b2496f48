#pragma once

#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// Writes the order in which each rank started its ops, a line a rank and
/// training step (engine/plan/check/order_log.hpp): complete after every step.
/// Throws `io`.
monitor order_log_monitor(const std::string& path);

}  // namespace troupe
