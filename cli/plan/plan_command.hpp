#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe plan`: compiles a schedule and shows it. Throws `troupe::error`.
void add_plan_command(CLI::App& app);

}  // namespace troupe::cli
