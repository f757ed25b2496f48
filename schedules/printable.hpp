#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Text of a file as an error message may show it: what is not printable
/// ASCII as \xNN, and after `most` bytes "...".
std::string printable(std::string_view text, std::size_t most = 80);

}  // namespace troupe
