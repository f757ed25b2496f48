#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe attach` and `troupe detach`. Throw `troupe::error`.
void add_attach_command(CLI::App& app);
void add_detach_command(CLI::App& app);

}  // namespace troupe::cli
