#include "troupe/engine/plan/routes.hpp"

#include <algorithm>

namespace troupe {

edge_slots::edge_slots(const plan& of)
  : slices_(static_cast<std::size_t>(of.slices)) {
  const auto messages = static_cast<std::size_t>(of.microbatches) * slices_;
  for (const auto [from, to] : of.graph.edges()) {
    first_.push_back(size_);
    bool leaves = false;
    for (std::int8_t copy = 0; copy < of.placement.copies(); ++copy)
      leaves |= crosses(of.placement, from, to, copy);
    size_ += leaves ? messages : 0;
  }
}

std::int32_t edge_of(const plan& of, const plan_op& transfer) {
  const auto [from, to] = std::minmax(transfer.stage, transfer.peer);
  const auto& edges = of.graph.edges();
  const auto found = std::ranges::lower_bound(edges, stage_edge{from, to});
  return found != edges.end() && *found == stage_edge{from, to}
           ? static_cast<std::int32_t>(found - edges.begin())
           : none;
}

}  // namespace troupe
