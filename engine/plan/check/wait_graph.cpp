#include "troupe/engine/plan/check/wait_graph.hpp"

#include <algorithm>
#include <deque>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

namespace {

/// Searches cycles through one node after the other, in which that node is the
/// smallest.
class cycle_search {
 public:
  explicit cycle_search(const std::vector<std::vector<wait_edge>>& waits_for)
    : waits_for_{waits_for},
      distance_(waits_for.size(), unseen),
      from_(waits_for.size(), none) {}

  std::vector<std::int32_t> run() {
    const auto count = static_cast<std::int32_t>(waits_for_.size());
    for (std::int32_t start = 0; start < count; ++start)
      search(start);
    return best_;
  }

 private:
  static constexpr std::int32_t unseen = INT32_MAX;

  // By breadth: what adds nothing comes before the rest. Stops at the length of
  // the best cycle so far.
  void search(std::int32_t start) {
    reach({start, 0}, none, 0);
    while (!open_.empty()) {
      const auto node = open_.front();
      open_.pop_front();
      const auto before = distance_[slot(node)];
      for (const auto& edge : waits_for_[slot(node)]) {
        const auto length = before + edge.length;
        if (length >= shortest_)
          continue;
        if (edge.to == start)
          keep(node, length);
        else if (edge.to > start && length < distance_[slot(edge.to)])
          reach(edge, node, length);
      }
    }
    for (const auto node : seen_)
      distance_[slot(node)] = unseen;
    seen_.clear();
  }

  void reach(const wait_edge& edge, std::int32_t from, std::int32_t length) {
    distance_[slot(edge.to)] = length;
    from_[slot(edge.to)] = from;
    seen_.push_back(edge.to);
    if (edge.length == 0)
      open_.push_front(edge.to);
    else
      open_.push_back(edge.to);
  }

  void keep(std::int32_t last, std::int32_t length) {
    shortest_ = length;
    best_.clear();
    for (auto node = last; node != none; node = from_[slot(node)])
      best_.push_back(node);
    std::reverse(best_.begin(), best_.end());
  }

  const std::vector<std::vector<wait_edge>>& waits_for_;
  std::vector<std::int32_t> distance_;  // from the start
  std::vector<std::int32_t> from_;
  std::vector<std::int32_t> seen_;
  std::deque<std::int32_t> open_;
  std::int32_t shortest_ = unseen;
  std::vector<std::int32_t> best_;
};

}  // namespace

std::vector<std::int32_t> smallest_cycle(
  const std::vector<std::vector<wait_edge>>& waits_for) {
  return cycle_search{waits_for}.run();
}

}  // namespace troupe
