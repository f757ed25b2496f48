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

/// Another program's text, safe for a terminal: UTF-8, lines and tabs stay as
/// they are; other control characters, which could control the terminal, those
/// that reverse the order of what follows (U+202A to U+202E, U+2066 to U+2069),
/// and bytes that are not UTF-8 become \xNN.
std::string plain_text(std::string_view text);

}  // namespace troupe
