#pragma once

#include <cstdio>
#include <string_view>

namespace troupe {

/// Shows a text in the last line of a terminal, in place of the one before.
/// Everything else that is printed on the terminal calls `clear_status_line`
/// first. One line per process. Any thread. Returns false, with `errno`, if it
/// can't be written.
bool show_status_line(std::FILE* terminal, std::string_view text);

/// Removes the line, if there is one. Any thread.
void clear_status_line();

}  // namespace troupe
