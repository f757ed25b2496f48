#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::cli {

/// The words that a flag takes, in the order of --help, and what each stands
/// for.
template <class Value>
using choices = std::vector<std::pair<std::string, Value>>;

}  // namespace troupe::cli
