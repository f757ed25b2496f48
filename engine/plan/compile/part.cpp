#include "troupe/engine/plan/compile/part.hpp"

#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

/// The closing ops, or all others.
plan part_of(const plan& whole, bool closing) {
  return with_lanes(whole, [&](std::int32_t rank) {
    std::vector<plan_op> ops;
    for (const auto& op : whole.lane(rank))
      if ((traits_of(op).type == op_class::closing) == closing)
        ops.push_back(op);
    return ops;
  });
}

}  // namespace

plan gradients_of(const plan& whole) {
  auto part = part_of(whole, false);
  part.schedule_name = "gradients of " + whole.schedule_name;
  part.global_norm = false;
  return part;
}

plan update_of(const plan& whole) {
  auto part = part_of(whole, true);
  part.schedule_name = "update of " + whole.schedule_name;
  part.channels.clear();  // all messages belong to forwards and backwards
  return part;
}

plan without_overlapped_reductions(plan whole) {
  for (auto& op : whole.ops)
    // Nothing runs beside those of holders.
    if (is_of_gradients(op.kind)
        && traits_of(op.kind).group == op_group::instances)
      op.stream = stream_kind::compute;
  return whole;
}

schedule schedule_of(const plan& whole) {
  schedule part{.name = whole.schedule_name,
                .microbatches = whole.microbatches,
                .slices = whole.slices,
                .placement = whole.placement,
                .update = whole.update};
  for (std::int32_t rank = 0; rank < whole.ranks(); ++rank) {
    auto& ops = part.lanes.emplace_back();
    for (const auto& what : whole.lane(rank))
      if (is_compute(what.kind))
        ops.push_back({.stage = what.stage,
                       .microbatch = what.microbatch,
                       .slice = what.slice,
                       .copy = what.copy,
                       .kind = static_cast<op_kind>(what.kind),
                       .overlaps_next = what.overlaps_next});
  }
  return part;
}

}  // namespace troupe
