#pragma once

#include "troupe/cli/train_options.hpp"

namespace troupe::cli {

/// Throws `invalid_argument` if something that the run would write, by whatever
/// flag, monitor or sink, is a file that another one writes or that it reads,
/// and `io` for what can't be written.
void require_outputs(const train_options& options);

}  // namespace troupe::cli
