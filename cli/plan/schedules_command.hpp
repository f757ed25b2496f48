#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe schedules`: the built-in schedules, with the shapes that they take.
void add_schedules_command(CLI::App& app);

}  // namespace troupe::cli
