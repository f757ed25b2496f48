#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

/// The names that a mistyped name or glob most likely means, the likeliest
/// first: those with the fewest characters to insert, drop or replace, where a
/// `*` stands for any characters and a `?` for one. At most `count`, and none
/// that shares less than half of its characters. Time is the product of the
/// lengths.
std::vector<std::string> closest_names(const std::string& wanted,
                                       const std::vector<std::string>& names,
                                       std::size_t count = 3);

}  // namespace troupe
