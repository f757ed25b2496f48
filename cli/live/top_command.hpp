#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe top`: a live job at a glance. Throws `troupe::error`.
void add_top_command(CLI::App& app);

}  // namespace troupe::cli
