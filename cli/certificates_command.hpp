#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe certificates`: makes what the processes of a job on several
/// machines show each other. Throws `troupe::error`.
void add_certificates_command(CLI::App& app);

}  // namespace troupe::cli
