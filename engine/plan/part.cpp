#include "troupe/engine/plan/part.hpp"

#include <limits>
#include <map>
#include <utility>

#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

constexpr auto left_out = std::numeric_limits<std::uint32_t>::max();

bool closes(const plan_op& op) {
  return traits_of(op).type == op_class::closing;
}

/// Extracts ops from a plan by kind, and what refers to them.
class part_maker {
 public:
  part_maker(const plan& whole, bool closing)
    : whole_{whole}, closing_{closing}, number_(whole.ops.size(), left_out) {
    part_.microbatches = whole.microbatches;
    part_.slices = whole.slices;
    part_.training = whole.training;
    part_.global_norm = closing && whole.global_norm;
    part_.placement = whole.placement;
    part_.graph = whole.graph;
    part_.update = whole.update;
  }

  plan make() {
    for (std::int32_t rank = 0; rank < whole_.ranks(); ++rank)
      take_lane(rank);
    part_.first_op.push_back(static_cast<std::uint32_t>(part_.ops.size()));
    for (auto& op : part_.ops)
      take_dependencies(op);
    if (!closing_)
      take_messages();
    return std::move(part_);
  }

 private:
  void take_lane(std::int32_t rank) {
    part_.first_op.push_back(static_cast<std::uint32_t>(part_.ops.size()));
    for (const auto i : whole_.ops_of(rank))
      if (closes(whole_.ops[i]) == closing_) {
        number_[i] = static_cast<std::uint32_t>(part_.ops.size());
        part_.ops.push_back(whole_.ops[i]);
      }
  }

  /// Keeps ranges shared where the ops of the whole share them.
  void take_dependencies(plan_op& op) {
    const auto [known, fresh] = ranges_.emplace(
      std::pair{op.first_dependency, op.dependency_count}, range{});
    if (fresh) {
      known->second.first =
        static_cast<std::uint32_t>(part_.dependencies.size());
      for (const auto dependency : whole_.dependencies_of(op))
        if (number_[dependency] != left_out)
          part_.dependencies.push_back(number_[dependency]);
      known->second.count =
        static_cast<std::uint32_t>(part_.dependencies.size())
        - known->second.first;
    }
    op.first_dependency = known->second.first;
    op.dependency_count = known->second.count;
  }

  /// All messages belong to forwards and backwards.
  void take_messages() {
    part_.channels = whole_.channels;
    part_.messages = whole_.messages;
    for (auto& message : part_.messages)
      for (auto* op : {&message.producer, &message.send, &message.receive,
                       &message.consumer})
        *op = number_[*op];
  }

  struct range {
    std::uint32_t first = 0, count = 0;
  };

  const plan& whole_;
  bool closing_;
  std::vector<std::uint32_t> number_;  // by op of the whole: its index here
  std::map<std::pair<std::uint32_t, std::uint32_t>, range> ranges_;
  plan part_;
};

}  // namespace

plan gradients_of(const plan& whole) {
  auto part = part_maker{whole, false}.make();
  part.schedule_name = "gradients of " + whole.schedule_name;
  return part;
}

plan update_of(const plan& whole) {
  auto part = part_maker{whole, true}.make();
  part.schedule_name = "update of " + whole.schedule_name;
  return part;
}

plan without_overlapped_reductions(plan whole) {
  for (auto& op : whole.ops)
    if (op.kind == plan_op_kind::reduce)  // nothing runs beside sums of tied
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
