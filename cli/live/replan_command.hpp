#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe replan`: another order of ops for a live job.
void add_replan_command(CLI::App& app);

}  // namespace troupe::cli
