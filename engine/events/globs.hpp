#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Those of a list that is joined by commas.
std::vector<std::string> globs_of(const std::string& patterns);

/// Throws `invalid_argument` if one of them is malformed, so that it could
/// match nothing.
void require_globs(const std::string& patterns);

}  // namespace troupe
