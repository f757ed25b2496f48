#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// `troupe lab`: serves a page on which schedules are tried, until a signal.
/// Throws `troupe::error`.
void add_lab_command(CLI::App& app);

}  // namespace troupe::cli
