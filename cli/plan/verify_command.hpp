#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe verify`: proves that a schedule or lowered plan makes progress.
/// Throws `troupe::error`; deadlock with the cycle of waits.
void add_verify_command(CLI::App& app);

}  // namespace troupe::cli
