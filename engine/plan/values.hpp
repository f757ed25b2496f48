#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What one op makes and another one reads.
enum class value_kind : std::uint8_t {
  activation,       // outputs of a forward, for another stage
  gradient,         // of those: what a B or an I gives back
  context,          // what a forward keeps for its B or I
  hosted,           // ... in the host's memory: from its offload to its reload
  version,          // of the parameters, which its B or I reads again
  deferred,         // what an I keeps for its W
  carry,            // what a slice's forward keeps for the next slice's
  carry_gradient,   // ... and its B or I for that of the slice before
  weight_gradient,  // of a stage: reduced, or with sums of tied ones
  parameters,       // of a stage, whole: from a gather to its release
};

std::string_view to_text(value_kind kind);

/// Whether the value's form is the stage's own affair.
constexpr bool is_own(value_kind kind) {
  return kind >= value_kind::context && kind <= value_kind::carry_gradient;
}

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

/// A value that the op's stage keeps for the op's microbatch and slice, or a
/// slice next to it.
inline value own_value(value_kind kind, const plan_op& op, int slices_on = 0) {
  return {kind,
          op.stage,
          op.stage,
          op.copy,
          static_cast<std::int16_t>(op.slice + slices_on),
          op.microbatch};
}

/// The gradients of a stage's parameters.
inline value weight_gradient_of(const plan_op& op) {
  return {value_kind::weight_gradient, op.stage, op.stage, op.copy};
}

/// The whole parameters of a stage.
inline value parameters_of(const plan_op& op) {
  return {value_kind::parameters, op.stage, op.stage, op.copy};
}

/// Whether a gather comes after its stage's update: no release of the step
/// frees what it makes whole.
bool follows_update(const plan& plan, const plan_op& gather);

/// Whether a norm, or a sum of tied gradients, reads gradients that were
/// reduced or summed in this plan: otherwise the stage has them.
bool reads_gradients(const plan& plan, const plan_op& op);

/// Visits the values that an op of a stage reads: of other stages, by ascending
/// stage, then of its own.
template <class Visit>
void for_each_input(const plan& plan, const plan_op& op, Visit visit) {
  const bool forward = op.kind == plan_op_kind::forward;
  const bool backward = takes_gradient(op.kind);
  const auto kind = backward ? value_kind::gradient : value_kind::activation;
  if (forward || backward)
    for (const auto& [stage, edge] : plan.graph.inputs(op.stage, backward))
      visit(value{kind, stage, op.stage, op.copy, op.slice, op.microbatch});
  if (forward && op.slice > 0)
    visit(own_value(value_kind::carry, op, -1));
  if (backward)
    visit(own_value(value_kind::context, op));
  if (backward && plan.update.every > 0)
    visit(own_value(value_kind::version, op));
  if (backward && op.slice + 1 < plan.slices)
    visit(own_value(value_kind::carry_gradient, op, 1));
  if (op.kind == plan_op_kind::weight_backward)
    visit(own_value(value_kind::deferred, op));
  if (is_copy(op.kind))
    visit(own_value(op.kind == plan_op_kind::offload ? value_kind::context
                                                     : value_kind::hosted,
                    op));
  if ((op.kind == plan_op_kind::gradient_norm
       || op.kind == plan_op_kind::sum_tied)
      && reads_gradients(plan, op))
    visit(weight_gradient_of(op));
  if (op.kind == plan_op_kind::release)
    visit(parameters_of(op));
}

/// Visits the values that an op of a stage makes, in the same order.
template <class Visit>
void for_each_output(const plan& plan, const plan_op& op, Visit visit) {
  const bool forward = op.kind == plan_op_kind::forward;
  const bool backward = takes_gradient(op.kind);
  const auto kind = backward ? value_kind::gradient : value_kind::activation;
  if (forward || backward)
    for (const auto& [stage, edge] : plan.graph.outputs(op.stage, backward))
      visit(value{kind, op.stage, stage, op.copy, op.slice, op.microbatch});
  if (forward && plan.training)
    visit(own_value(value_kind::context, op));
  if (forward && plan.update.every > 0)
    visit(own_value(value_kind::version, op));
  if (forward && op.slice + 1 < plan.slices)
    visit(own_value(value_kind::carry, op));
  if (op.kind == plan_op_kind::input_backward)
    visit(own_value(value_kind::deferred, op));
  if (is_copy(op.kind))
    visit(own_value(op.kind == plan_op_kind::offload ? value_kind::hosted
                                                     : value_kind::context,
                    op));
  if (backward && op.slice > 0)
    visit(own_value(value_kind::carry_gradient, op));
  if (op.kind == plan_op_kind::reduce || op.kind == plan_op_kind::sum_tied)
    visit(weight_gradient_of(op));
  if (op.kind == plan_op_kind::gather && !follows_update(plan, op))
    visit(parameters_of(op));
}

/// Whether another rank reads what the op makes.
bool leaves_rank(const plan& plan, const plan_op& op);

/// The sending and receiving stages of all messages, ascending; of gradients
/// too.
std::vector<stage_edge> edges_between_ranks(const plan& plan);

}  // namespace troupe
