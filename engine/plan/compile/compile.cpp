#include "troupe/engine/plan/compile/compile.hpp"

#include <algorithm>
#include <set>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

std::vector<std::int32_t> tied_stages(const plan& of) {
  std::set<std::int32_t> stages;
  for (const auto& op : of.ops)
    if (traits_of(op.kind).group == op_group::holders)
      stages.insert(op.stage);
  return {stages.begin(), stages.end()};
}

plan without_ops(const schedule& lanes) {
  return {.schedule_name = lanes.name,
          .microbatches = lanes.microbatches,
          .slices = lanes.slices,
          .training = is_training(lanes),
          .placement = lanes.placement,
          .graph = stage_graph::chain(lanes.stages()),
          .update = lanes.update};
}

plan lane_plan(const schedule& lanes) {
  validate(lanes);
  auto result = without_ops(lanes);
  std::vector<std::uint32_t> makers[2];  // F; B or I; by op_slot
  for (auto& each : makers)
    each.resize(slot_count(lanes));
  for (const auto& each : lanes.lanes) {
    result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
    for (const auto& what : each) {
      if (what.kind != op_kind::weight_backward)
        makers[is_backward(what.kind) ? 1 : 0][op_slot(lanes, what)] =
          static_cast<std::uint32_t>(result.ops.size());
      result.ops.push_back(to_plan_op(what));
    }
  }
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  for (auto& what : result.ops) {
    what.first_dependency =
      static_cast<std::uint32_t>(result.dependencies.size());
    if (what.kind == plan_op_kind::weight_backward)
      continue;
    const bool backward = what.kind != plan_op_kind::forward;
    for (const auto& [giver, edge] :
         result.graph.inputs(what.stage, backward)) {
      auto input = what;
      input.stage = giver;
      result.dependencies.push_back(
        makers[backward ? 1 : 0][op_slot(result, input)]);
      ++what.dependency_count;
    }
  }
  return result;
}

plan compile(const schedule& lanes, const compile_options& options) {
  if (options.data_parallel < 1 || options.credits < 0)
    fail(error_code::invalid_argument,
         "a plan can't be compiled for {} replicas with {} credits; use 1 or "
         "more replicas, and 0 (each channel's own bound) or more credits",
         options.data_parallel, options.credits);
  validate(lanes);
  auto result = without_ops(lanes);
  place_ops(lanes, options, result);
  connect(result);
  grant_credits(result, options.credits);
  return result;
}

compile_options options_like(const plan& current) {
  const bool reduces =
    std::ranges::count(current.ops, plan_op_kind::reduce, &plan_op::kind) > 0;
  return {.data_parallel = reduces ? 2 : 1,
          .global_norm = current.global_norm,
          .graph = current.graph,
          .tied = tied_stages(current)};
}

}  // namespace troupe
