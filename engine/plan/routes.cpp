#include "troupe/engine/plan/routes.hpp"

#include <algorithm>

namespace troupe {

edge_slots::edge_slots(const plan& plan)
  : slices_(static_cast<std::size_t>(plan.slices)),
    edges_(plan.graph.edges().size()) {
  const auto microbatches = take_places(plan);
  for (std::int8_t copy = 0; copy < plan.placement.copies(); ++copy)
    for (const auto [giver, reader] : plan.graph.edges()) {
      first_.push_back(size_);
      if (crosses(plan.placement, giver, reader, copy))
        size_ += microbatches[static_cast<std::size_t>(copy)] * slices_;
    }
}

std::vector<std::size_t> edge_slots::take_places(const plan& plan) {
  const auto count = static_cast<std::size_t>(plan.microbatches);
  places_.resize(count);
  if (plan.placement.copies() == 1) {
    for (std::size_t i = 0; i < count; ++i)
      places_[i] = {i, 0};
    return {count};
  }
  std::vector<std::size_t> microbatches(
    static_cast<std::size_t>(plan.placement.copies()), 0);
  for (const auto& op : plan.ops)
    if (op.kind == plan_op_kind::forward)
      if (auto& place = places_[static_cast<std::size_t>(op.microbatch)];
          place.copy == none)
        place = {microbatches[static_cast<std::size_t>(op.copy)]++, op.copy};
  return microbatches;
}

std::int32_t edge_of(const plan& plan, const plan_op& transfer) {
  const auto giver = std::min(transfer.stage, transfer.peer);
  const auto reader = std::max(transfer.stage, transfer.peer);
  if (giver < 0 || reader >= plan.stages())
    return none;
  // Few stages read the same one; a chain's has a single reader.
  const auto readers = plan.graph.outputs(giver, false);
  const auto found = std::lower_bound(
    readers.begin(), readers.end(), reader,
    [](const auto& each, std::int32_t stage) { return each.stage < stage; });
  return found != readers.end() && found->stage == reader ? found->edge : none;
}

}  // namespace troupe
