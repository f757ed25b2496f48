#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// Text of another program as a terminal may show it: UTF-8, lines and tabs as
/// they are; other control characters, with which a terminal could be made to
/// do things, and bytes that are no UTF-8, as \xNN.
std::string plain_text(std::string_view text);

}  // namespace troupe
