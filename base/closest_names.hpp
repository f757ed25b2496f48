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

/// "; did you mean A or B?" for a word or glob that is likely a mistyped name,
/// with the names of the fewest edits, at most three; empty if none is similar.
/// At most a third of the word's characters differ, letter case and - or _
/// aside, or the names begin with the word, of at least four characters.
std::string did_you_mean(std::string_view word,
                         const std::vector<std::string>& names);

}  // namespace troupe
