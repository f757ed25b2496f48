#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe checkpoint inspect|verify|consolidate|split`.
void add_checkpoint_command(CLI::App& app);

}  // namespace troupe::cli
