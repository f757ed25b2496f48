#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe events`: prints a live job's events. Throws `troupe::error`.
void add_events_command(CLI::App& app);

}  // namespace troupe::cli
