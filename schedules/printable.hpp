#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Text of a file as an error message may show it: what is not printable
/// ASCII as \xNN, and after 80 bytes "...".
std::string printable(std::string_view text);

}  // namespace troupe
