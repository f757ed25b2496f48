#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe simulate`: durations, idle time and memory of a simulated schedule.
/// Throws `troupe::error`.
void add_simulate_command(CLI::App& app);

}  // namespace troupe::cli
