#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Another program's text, safe for a terminal: UTF-8, lines and tabs stay as
/// they are; other control characters, which could control the terminal, and
/// bytes that are not UTF-8 become \xNN.
std::string plain_text(std::string_view text);

}  // namespace troupe
