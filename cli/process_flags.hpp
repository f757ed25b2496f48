#pragma once

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/train/train_options.hpp"

namespace troupe::cli {

/// Declares the flags of commands that several processes run together, in a
/// group of their own.
void add_process_flags(CLI::App& app, process_options& options);

}  // namespace troupe::cli
