#include "troupe/engine/plan/values.hpp"

#include <fmt/format.h>

#include <set>

#include "troupe/engine/plan/routes.hpp"

namespace troupe {

namespace {

value made_by(std::int32_t stage, bool gradient, const plan_op& like) {
  return {gradient, stage, like.copy, like.slice, like.microbatch};
}

}  // namespace

std::string to_text(const value& of) {
  return fmt::format("{} of microbatch {} slice {} of stage {}",
                     of.gradient ? "gradient" : "activation", of.microbatch,
                     of.slice, of.stage);
}

std::optional<value> input_of(const plan& within, const plan_op& op) {
  if (op.kind == plan_op_kind::send)
    return made_by(op.stage, is_gradient(op.stream), op);
  const bool gradient = takes_gradient(op.kind);
  if (op.kind != plan_op_kind::forward && !gradient)
    return std::nullopt;
  const auto from = input_stage(op, gradient, within.stages());
  if (from == none)
    return std::nullopt;
  return made_by(from, gradient, op);
}

std::optional<value> output_of(const plan& within, const plan_op& op) {
  if (op.kind == plan_op_kind::receive) {
    const bool gradient = is_gradient(op.stream);
    return made_by(input_stage(op, gradient, within.stages()), gradient, op);
  }
  const bool gradient = takes_gradient(op.kind);
  if (op.kind != plan_op_kind::forward && !gradient)
    return std::nullopt;
  if (output_stage(op, gradient, within.stages()) == none)
    return std::nullopt;
  return made_by(op.stage, gradient, op);
}

bool leaves_rank(const plan& within, const plan_op& op) {
  return output_of(within, op)
         && crosses(within.placement, op.stage,
                    output_stage(op, takes_gradient(op.kind), within.stages()),
                    op.copy);
}

bool takes_inputs(const plan& within, std::int32_t stage) {
  return !input_of(within, {.kind = plan_op_kind::forward, .stage = stage});
}

bool makes_losses(const plan& within, std::int32_t stage) {
  return !output_of(within, {.kind = plan_op_kind::forward, .stage = stage});
}

std::vector<stage_edge> edges_of(const plan& of) {
  std::set<stage_edge> edges;
  for (const auto& each : of.messages)
    edges.insert({of.ops[each.send].stage, of.ops[each.receive].stage});
  return {edges.begin(), edges.end()};
}

}  // namespace troupe
