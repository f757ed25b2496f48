#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

/// Valid inputs, each with the name of its parser.
std::vector<std::pair<std::string, std::string>> seeds();

}  // namespace troupe::testing
