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
    case value_kind::weight_gradient:
      return "reduced gradients";
  }
  return "value";
}

std::string to_text(const value& of) {
  if (of.kind == value_kind::weight_gradient)
    return fmt::format("{} of stage {}", to_text(of.kind), of.from);
  return fmt::format("{} of microbatch {} slice {} from stage {} to stage {}",
                     to_text(of.kind), of.microbatch, of.slice, of.from, of.to);
}

bool reads_reduction(const plan& within, const plan_op& norm) {
  return std::ranges::any_of(
    within.dependencies_of(norm), [&](std::uint32_t before) {
      return within.ops[before].kind == plan_op_kind::reduce;
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

bool leaves_rank(const plan& within, const plan_op& op) {
  bool leaves = false;
  for_each_output(within, op, [&](const value& made) {
    leaves |= crosses(within.placement, made.from, made.to, made.copy);
  });
  return leaves;
}

std::vector<stage_edge> edges_between_ranks(const plan& of) {
  std::set<stage_edge> edges;
  for (const auto& each : of.messages)
    edges.insert({of.ops[each.send].stage, of.ops[each.receive].stage});
  return {edges.begin(), edges.end()};
}

}  // namespace troupe
