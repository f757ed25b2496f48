#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe generate`: continues prompts by a stored model.
void add_generate_command(CLI::App& app);

}  // namespace troupe::cli
