#include "troupe/engine/plan/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "troupe/engine/plan/routes.hpp"

namespace troupe {

std::string_view to_text(value_kind kind) {
  switch (kind) {
    case value_kind::activation:
      return "activation";
    case value_kind::gradient:
      return "gradient";
    case value_kind::context:
      return "context";
    case value_kind::hosted:
      return "context in the host's memory";
    case value_kind::version:
      return "version of the parameters";
    case value_kind::deferred:
      return "deferred weight gradients";
    case value_kind::carry:
      return "carry";
    case value_kind::carry_gradient:
      return "gradient of the carry";
    case value_kind::weight_gradient:
      return "reduced gradients";
    case value_kind::parameters:
      return "whole parameters";
  }
  return "value";
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
  return std::ranges::any_of(
    plan.dependencies_of(op), [&](std::uint32_t dependency) {
      return plan.ops[dependency].kind == plan_op_kind::reduce
             || plan.ops[dependency].kind == plan_op_kind::sum_tied;
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
  for_each_output(plan, op, [&](const value& made) {
    leaves |= crosses(plan.placement, made.from, made.to, made.copy);
  });
  return leaves;
}

std::vector<stage_edge> edges_between_ranks(const plan& plan) {
  std::set<stage_edge> edges;
  for (const auto& each : plan.messages)
    edges.insert({plan.ops[each.send].stage, plan.ops[each.receive].stage});
  return {edges.begin(), edges.end()};
}

}  // namespace troupe
