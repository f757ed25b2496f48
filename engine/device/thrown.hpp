#pragma once

#include <string>

namespace troupe {

/// What the exception that is being handled says; of one that is no
/// std::exception, its type. Only within a `catch`.
std::string thrown_text();

}  // namespace troupe
