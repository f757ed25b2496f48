#include "troupe/engine/plan/routes.hpp"

#include <algorithm>

namespace troupe {

edge_slots::edge_slots(const plan& of)
  : slices_(static_cast<std::size_t>(of.slices)),
    edges_(of.graph.edges().size()),
    places_(static_cast<std::size_t>(of.microbatches)) {
  std::vector<std::size_t> microbatches(
    static_cast<std::size_t>(of.placement.copies()), 0);
  for (const auto& op : of.ops)
    if (op.kind == plan_op_kind::forward)
      if (auto& at = places_[static_cast<std::size_t>(op.microbatch)];
          at.copy == none)
        at = {microbatches[static_cast<std::size_t>(op.copy)]++, op.copy};
  for (std::int8_t copy = 0; copy < of.placement.copies(); ++copy)
    for (const auto [from, to] : of.graph.edges()) {
      first_.push_back(size_);
      if (crosses(of.placement, from, to, copy))
        size_ += microbatches[static_cast<std::size_t>(copy)] * slices_;
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
