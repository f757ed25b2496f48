#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe compare`: all that fit a job, simulated, as a table. Throws
/// `troupe::error`.
void add_compare_command(CLI::App& app);

}  // namespace troupe::cli
