#pragma once

#include <string>
#include <vector>

namespace troupe::cli {

/// Folds settings after a monitor's name into its spec: `ENDPOINT overflow
/// --match 'blocks.*' --abort-after 3` gives `ENDPOINT
/// overflow:match=blocks.*,abort_after=3`. A flag without a value is true.
/// Flags of `troupe attach` itself stay. Throws `invalid_argument` for a
/// setting before any monitor.
std::vector<std::string> fold_settings(std::vector<std::string> arguments);

}  // namespace troupe::cli
