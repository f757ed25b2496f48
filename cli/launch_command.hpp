#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe launch`: runs several processes of a job on this machine. Throws
/// `stopped_by_signal` with the exit code of the first that fails.
void add_launch_command(CLI::App& app);

}  // namespace troupe::cli
