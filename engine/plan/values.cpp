#include "troupe/engine/plan/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "troupe/schedules/validate.hpp"

namespace troupe {

std::string_view to_text(value_kind kind) {
  constexpr std::array<std::string_view, value_kinds> texts{
    "activation",
    "gradient",
    "context",
    "context in the host's memory",
    "version of the parameters",
    "deferred weight gradients",
    "carry",
    "gradient of the carry",
    "reduced gradients",
    "whole parameters"};
  return texts[slot(kind)];
}

std::string to_text(const value& value) {
  if (value.kind == value_kind::weight_gradient
      || value.kind == value_kind::parameters)
    return fmt::format("{} of stage {}", to_text(value.kind), value.from);
  if (is_own(value.kind))
    return fmt::format("{} of microbatch {} slice {} of stage {}",
                       to_text(value.kind), value.microbatch, value.slice,
                       value.from);
  return fmt::format("{} of microbatch {} slice {} from stage {} to stage {}",
                     to_text(value.kind), value.microbatch, value.slice,
                     value.from, value.to);
}

bool follows_update(const plan& plan, const plan_op& gather) {
  return std::ranges::any_of(
    plan.dependencies_of(gather), [&](std::uint32_t dependency) {
      return plan.ops[dependency].kind == plan_op_kind::update;
    });
}

bool reads_gradients(const plan& plan, const plan_op& op) {
  return std::ranges::any_of(plan.dependencies_of(op),
                             [&](std::uint32_t dependency) {
                               return traits_of(plan.ops[dependency].kind)
                                 .writes.has(value_kind::weight_gradient);
                             });
}

value moved_by(const plan_op& transfer) {
  const bool sends = transfer.kind == plan_op_kind::send;
  return {is_gradient(transfer.stream) ? value_kind::gradient
                                       : value_kind::activation,
          sends ? transfer.stage : transfer.peer,
          sends ? transfer.peer : transfer.stage,
          transfer.copy,
          transfer.slice,
          transfer.microbatch};
}

bool leaves_rank(const plan& plan, const plan_op& op) {
  bool leaves = false;
  for_each_output(plan, op, [&](const value& output) {
    leaves |= crosses(plan.placement, output.from, output.to, output.copy);
  });
  return leaves;
}

std::vector<stage_edge> edges_between_ranks(const plan& plan) {
  std::set<stage_edge> edges;
  for (const auto& each : plan.messages)
    edges.insert({plan.ops[each.send].stage, plan.ops[each.receive].stage});
  return {edges.begin(), edges.end()};
}

std::int32_t version_of(const plan& plan, const plan_op& forward) {
  for (const auto input : plan.dependencies_of(forward))
    if (const auto& op = plan.ops[input]; op.kind == plan_op_kind::update)
      return update_number(plan, op.microbatch) + 1;
  return 0;
}

std::vector<std::vector<std::int32_t>> versions_of(const plan& plan) {
  std::vector<std::vector<std::int32_t>> versions(
    slot(plan.stages()), std::vector<std::int32_t>(slot(plan.microbatches), 0));
  for (const auto& op : plan.ops)
    if (op.kind == plan_op_kind::forward)
      versions[slot(op.stage)][slot(op.microbatch)] = version_of(plan, op);
  return versions;
}

std::vector<std::int32_t> staleness_of(const plan& plan) {
  std::vector<std::int32_t> most;
  for (const auto& versions : versions_of(plan)) {
    most.push_back(0);
    for (std::int32_t k = 0; k < plan.microbatches; ++k)
      most.back() =
        std::max(most.back(), update_number(plan, k) - versions[slot(k)]);
  }
  return most;
}

edge_slots::edge_slots(const plan& plan)
  : slices_(slot(plan.slices)), edges_(plan.graph.edges().size()) {
  const auto microbatches = take_places(plan);
  for (std::int8_t copy = 0; copy < plan.placement.copies(); ++copy)
    for (const auto [giver, reader] : plan.graph.edges()) {
      first_.push_back(size_);
      if (crosses(plan.placement, giver, reader, copy))
        size_ += microbatches[slot(copy)] * slices_;
    }
}

std::vector<std::size_t> edge_slots::take_places(const plan& plan) {
  const auto count = slot(plan.microbatches);
  places_.resize(count);
  if (plan.placement.copies() == 1) {
    for (std::size_t i = 0; i < count; ++i)
      places_[i] = {i, 0};
    return {count};
  }
  std::vector<std::size_t> microbatches(slot(plan.placement.copies()), 0);
  for (const auto& op : plan.ops)
    if (op.kind == plan_op_kind::forward)
      if (auto& place = places_[slot(op.microbatch)]; place.copy == none)
        place = {microbatches[slot(op.copy)]++, op.copy};
  return microbatches;
}

std::int32_t edge_of(const plan& plan, const plan_op& transfer) {
  const auto giver = std::min(transfer.stage, transfer.peer);
  const auto reader = std::max(transfer.stage, transfer.peer);
  if (giver < 0 || reader >= plan.stages())
    return none;
  // Few stages read the same one; a chain's has a single reader.
  const auto readers = plan.graph.outputs(giver, false);
  const auto found = std::ranges::lower_bound(readers, reader, {},
                                              &stage_graph::neighbour::stage);
  return found != readers.end() && found->stage == reader ? found->edge : none;
}

}  // namespace troupe
