#pragma once

#include <string>

namespace troupe {

/// The name of the logger that `log_finding` uses.
inline constexpr auto finding_logger = "findings";

/// Logs a warning of a monitor: to where the default logger writes, but under
/// `finding_logger`, so that a dashboard, which has the finding from the
/// monitor itself, can skip it. Any thread.
void log_finding(const std::string& text);

}  // namespace troupe
