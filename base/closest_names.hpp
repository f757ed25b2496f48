#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// How many characters to insert, drop, replace or swap with the next one make
/// `name` of `wanted` (optimal string alignment), in which a `*` stands for any
/// characters and a `?` for one. Time is the product of the lengths.
std::size_t edits(std::string_view wanted, std::string_view name);

/// The names that a mistyped name or glob most likely means, the likeliest
/// first: those with the fewest edits. At most `count`, and none
/// that shares less than half of its characters.
std::vector<std::string> closest_names(const std::string& wanted,
                                       const std::vector<std::string>& names,
                                       std::size_t count = 3);

/// "; did you mean A or B?" for a word that is likely a mistyped name, with the
/// closest names, at most three; empty if none is similar. At most a third of
/// the characters differ, letter case and - or _ aside, or the names begin with
/// the word, of at least four characters.
std::string did_you_mean(std::string_view word,
                         const std::vector<std::string>& names);

}  // namespace troupe
