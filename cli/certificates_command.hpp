#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe certificates`: makes the credentials of a job's processes on several
/// machines. Throws `troupe::error`.
void add_certificates_command(CLI::App& app);

}  // namespace troupe::cli
