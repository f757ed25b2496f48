#pragma once

#include "troupe/cli/train/train_options.hpp"

namespace troupe::cli {

/// Throws `invalid_argument` if the run would write a file, by any flag,
/// monitor or sink, that it also reads or writes otherwise, and `io` if one
/// can't be written. Removes what killed runs have left beside these files.
void require_outputs(const train_options& options);

}  // namespace troupe::cli
