#include "troupe/engine/plan/wait_graph.hpp"

#include <algorithm>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

std::vector<std::int32_t> smallest_cycle(
  const std::vector<std::int32_t>& waits_for) {
  std::vector<std::int32_t> seen_by(waits_for.size(), none);
  const auto entry = [](auto& items, std::int32_t i) -> auto& {
    return items[static_cast<std::size_t>(i)];
  };
  std::vector<std::int32_t> best;
  const auto nodes = static_cast<std::int32_t>(waits_for.size());
  for (std::int32_t start = 0; start < nodes; ++start) {
    auto node = start;
    for (; node != none && entry(seen_by, node) == none;
         node = entry(waits_for, node))
      entry(seen_by, node) = start;
    if (node == none || entry(seen_by, node) != start)
      continue;
    std::vector<std::int32_t> cycle{node};
    for (auto next = entry(waits_for, node); next != node;
         next = entry(waits_for, next))
      cycle.push_back(next);
    if (best.empty() || cycle.size() < best.size())
      best = cycle;
  }
  std::rotate(best.begin(), std::min_element(best.begin(), best.end()),
              best.end());
  return best;
}

}  // namespace troupe
