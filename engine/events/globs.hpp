#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Splits a list of globs at its commas.
std::vector<std::string> globs_of(const std::string& patterns);

/// Throws `invalid_argument` if one is malformed and could match nothing.
void require_globs(const std::string& patterns);

}  // namespace troupe
