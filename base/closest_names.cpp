#include "troupe/base/closest_names.hpp"

#include <algorithm>
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

std::vector<std::string> closest_names(const std::string& wanted,
                                       const std::vector<std::string>& names,
                                       std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& name : names)
    if (const auto cost = edits(wanted, name);
        2 * cost <= std::max(wanted.size(), name.size()))
      found.emplace_back(cost, name);
  std::ranges::stable_sort(found, {},
                           [](const auto& each) { return each.first; });
  std::vector<std::string> closest;
  for (std::size_t i = 0; i < std::min(count, found.size()); ++i)
    closest.push_back(found[i].second);
  return closest;
}

}  // namespace troupe
