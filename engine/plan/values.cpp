#include "troupe/engine/plan/values.hpp"

#include <fmt/format.h>

#include <set>

#include "troupe/engine/plan/routes.hpp"

namespace troupe {

std::string to_text(const value& of) {
  return fmt::format("{} of microbatch {} slice {} from stage {} to stage {}",
                     of.gradient ? "gradient" : "activation", of.microbatch,
                     of.slice, of.from, of.to);
}

value moved_by(const plan_op& transfer) {
  const bool sends = transfer.kind == plan_op_kind::send;
  return {is_gradient(transfer.stream),
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
