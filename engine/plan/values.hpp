#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What one op makes and another one reads: a forward its outputs, a B or an I
/// the gradients of its inputs, a reduction the gradients of its stage's
/// parameters, over all microbatches and replicas.
enum class value_kind : std::uint8_t { activation, gradient, weight_gradient };

std::string_view to_text(value_kind kind);

/// Named by the stages that make and read it, on whichever ranks they are.
struct value {
  value_kind kind = value_kind::activation;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int8_t copy = 0;
  std::int16_t slice = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const value&, const value&) = default;
};

/// "activation of microbatch 3 slice 0 from stage 1 to stage 2".
std::string to_text(const value& value);

/// The value that a transfer moves.
value moved_by(const plan_op& transfer);

/// The gradients of a stage's parameters.
inline value weight_gradient_of(const plan_op& op) {
  return {value_kind::weight_gradient, op.stage, op.stage, op.copy};
}

/// Whether a norm comes after the reduction in this plan, or in an earlier one.
bool reads_reduction(const plan& plan, const plan_op& norm);

/// Visits the values that an op of a stage reads, by ascending stage.
template <class Visit>
void for_each_input(const plan& plan, const plan_op& op, Visit visit) {
  const bool backward = takes_gradient(op.kind);
  const auto kind = backward ? value_kind::gradient : value_kind::activation;
  if (op.kind == plan_op_kind::forward || backward)
    for (const auto& [stage, edge] : plan.graph.inputs(op.stage, backward))
      visit(value{kind, stage, op.stage, op.copy, op.slice, op.microbatch});
  else if (op.kind == plan_op_kind::gradient_norm && reads_reduction(plan, op))
    visit(weight_gradient_of(op));
}

/// Visits the values that an op of a stage makes, by ascending stage.
template <class Visit>
void for_each_output(const plan& plan, const plan_op& op, Visit visit) {
  const bool backward = takes_gradient(op.kind);
  const auto kind = backward ? value_kind::gradient : value_kind::activation;
  if (op.kind == plan_op_kind::forward || backward)
    for (const auto& [stage, edge] : plan.graph.outputs(op.stage, backward))
      visit(value{kind, op.stage, stage, op.copy, op.slice, op.microbatch});
  else if (op.kind == plan_op_kind::reduce)
    visit(weight_gradient_of(op));
}

/// Whether another rank reads what the op makes.
bool leaves_rank(const plan& plan, const plan_op& op);

/// The sending and receiving stages of all messages, ascending; of gradients
/// too.
std::vector<stage_edge> edges_between_ranks(const plan& plan);

}  // namespace troupe
