#include "troupe/base/closest_names.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace troupe {

std::size_t edits(std::string_view wanted, std::string_view name) {
  std::vector<std::size_t> above(name.size() + 1), before;
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const bool any = wanted[w] == '*';
    auto row = above;
    row[0] = above[0] + (any ? 0 : 1);
    for (std::size_t i = 1; i <= name.size(); ++i) {
      const bool same = wanted[w] == '?' || wanted[w] == name[i - 1];
      row[i] = any ? std::min(above[i], row[i - 1])
                   : std::min({above[i] + 1, row[i - 1] + 1,
                               above[i - 1] + (same ? 0 : 1)});
      const bool swapped = w > 0 && i > 1 && wanted[w] == name[i - 2]
                           && wanted[w - 1] == name[i - 1];
      if (swapped)
        row[i] = std::min(row[i], before[i - 2] + 1);
    }
    before = std::exchange(above, std::move(row));
  }
  return above.back();
}

namespace {

constexpr std::size_t most_names = 3;
constexpr std::size_t least_beginning = 4;

/// In lower case, with - for _.
std::string normalized(std::string_view word) {
  std::string text{word};
  for (auto& each : text)
    each =
      each == '_'
        ? '-'
        : static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

/// The names of the fewest edits, if these are few, or that begin so.
std::vector<std::string> similar_names(const std::string& word,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> similar;
  auto fewest = (word.size() + 1) / 3;
  for (const auto& name : names) {
    const auto cost = edits(word, normalized(name));
    if (cost > fewest)
      continue;
    if (cost < fewest)
      similar.clear();
    fewest = cost;
    similar.push_back(name);
  }
  if (similar.empty() && word.size() >= least_beginning)
    for (const auto& name : names)
      if (normalized(name).starts_with(word))
        similar.push_back(name);
  return similar;
}

}  // namespace

std::string did_you_mean(std::string_view word,
                         const std::vector<std::string>& names) {
  const auto similar = similar_names(normalized(word), names);
  const auto count = std::min(similar.size(), most_names);
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += (i == 0           ? "; did you mean "
             : i + 1 == count ? " or "
                              : ", ")
            + similar[i];
  return text.empty() ? text : text + "?";
}

}  // namespace troupe
