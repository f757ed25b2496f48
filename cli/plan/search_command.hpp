#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe search`: a schedule for measured costs and a memory limit, and how
/// far it is from the catalogue's best and from a lower bound. Throws
/// `troupe::error`.
void add_search_command(CLI::App& app);

}  // namespace troupe::cli
