#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe train`: runs when the subcommand is parsed. Throws `troupe::error`.
void add_train_command(CLI::App& app);

}  // namespace troupe::cli
