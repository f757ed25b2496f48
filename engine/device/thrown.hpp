#pragma once

#include <string>

namespace troupe {

/// Describes the exception being handled; for one that does not derive from
/// std::exception, names its type. Call only within a `catch`.
std::string thrown_text();

}  // namespace troupe
