#include "troupe/engine/plan/check/wait_graph.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

std::vector<std::int32_t> smallest_cycle(
  const std::vector<std::vector<wait_edge>>& waits_for) {
  constexpr std::int32_t unseen = INT32_MAX;
  std::vector<std::int32_t> distance(waits_for.size(), unseen);  // of the start
  std::vector<std::int32_t> from(waits_for.size(), none);
  std::vector<std::int32_t> seen, best;
  std::deque<std::int32_t> open;
  auto shortest = unseen;
  const auto reach = [&](const wait_edge& edge, std::int32_t before,
                         std::int32_t length) {
    distance[slot(edge.to)] = length;
    from[slot(edge.to)] = before;
    seen.push_back(edge.to);
    if (edge.length == 0)
      open.push_front(edge.to);
    else
      open.push_back(edge.to);
  };
  // Cycles through one node after the other, in which that node is the
  // smallest. By breadth: what adds nothing comes before the rest. Stops at the
  // length of the best cycle so far.
  for (std::int32_t start = 0; start < std::ssize(waits_for); ++start) {
    reach({start, 0}, none, 0);
    while (!open.empty()) {
      const auto node = open.front();
      open.pop_front();
      for (const auto& edge : waits_for[slot(node)]) {
        const auto length = distance[slot(node)] + edge.length;
        if (length >= shortest)
          continue;
        if (edge.to == start) {
          shortest = length;
          best.clear();
          for (auto each = node; each != none; each = from[slot(each)])
            best.push_back(each);
        } else if (edge.to > start && length < distance[slot(edge.to)]) {
          reach(edge, node, length);
        }
      }
    }
    for (const auto node : std::exchange(seen, {}))
      distance[slot(node)] = unseen;
  }
  std::ranges::reverse(best);
  return best;
}

}  // namespace troupe
