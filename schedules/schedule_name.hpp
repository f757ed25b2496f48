#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// A name from outside, of a file or in it, as a schedule may bear it: letters,
/// digits, spaces and any of `_-+.,:/`, at most 200 of them; anything else is
/// replaced by `_`. Files and logs that show the name therefore hold nothing
/// that a shell, a terminal or a page would take for more than a name.
std::string schedule_name(std::string_view text);

}  // namespace troupe
