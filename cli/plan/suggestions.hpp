#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::cli {

/// "; did you mean X?" if one of the names is similar to the word, else ".".
std::string suggestion(std::string_view word,
                       const std::vector<std::string>& names);

}  // namespace troupe::cli
