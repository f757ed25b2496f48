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
  const auto from = std::min(transfer.stage, transfer.peer);
  const auto to = std::max(transfer.stage, transfer.peer);
  if (from < 0 || to >= of.stages())
    return none;
  // Few stages read the same one; a chain's has a single reader.
  const auto readers = of.graph.outputs(from, false);
  const auto found = std::lower_bound(
    readers.begin(), readers.end(), to,
    [](const auto& each, std::int32_t stage) { return each.stage < stage; });
  return found != readers.end() && found->stage == to ? found->edge : none;
}

}  // namespace troupe
