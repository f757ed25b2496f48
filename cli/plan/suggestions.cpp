#include "troupe/cli/plan/suggestions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/closest_names.hpp"

namespace troupe::cli {

std::string suggestion(std::string_view word,
                       const std::vector<std::string>& names) {
  const auto nearest = std::ranges::min_element(
    names, {}, [&](const std::string& name) { return edits(word, name); });
  const bool near =
    nearest != names.end() && edits(word, *nearest) * 3 <= word.size() + 1;
  return near ? fmt::format("; did you mean {}?", *nearest) : ".";
}

}  // namespace troupe::cli
