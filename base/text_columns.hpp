#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

// Of UTF-8 whose characters each take one column of a terminal.

/// Columns that a text takes.
std::size_t columns_of(std::string_view text);

/// The first `columns` columns of a text.
std::string clipped(std::string_view text, std::size_t columns);

}  // namespace troupe
