#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// A file's text for an error message: \xNN for anything that is not printable
/// ASCII, and "..." after `most` bytes.
std::string printable(std::string_view text, std::size_t most = 80);

/// A number for a message: NaN without its sign, which says nothing.
double printable(double value);

}  // namespace troupe
