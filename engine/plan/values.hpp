#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

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
  const auto& reads = traits_of(op.kind).reads;
  const auto from_stages = [&](value_kind kind) {
    for (const auto& [stage, edge] :
         plan.graph.inputs(op.stage, kind == value_kind::gradient))
      visit(value{kind, stage, op.stage, op.copy, op.slice, op.microbatch});
  };
  if (reads.has(value_kind::activation))
    from_stages(value_kind::activation);
  if (reads.has(value_kind::gradient))
    from_stages(value_kind::gradient);
  for (const auto kind :
       {value_kind::context, value_kind::hosted, value_kind::deferred})
    if (reads.has(kind))
      visit(own_value(kind, op));
  if (reads.has(value_kind::version) && plan.update.every > 0)
    visit(own_value(value_kind::version, op));
  if (reads.has(value_kind::carry) && op.slice > 0)
    visit(own_value(value_kind::carry, op, -1));
  if (reads.has(value_kind::carry_gradient) && op.slice + 1 < plan.slices)
    visit(own_value(value_kind::carry_gradient, op, 1));
  if (reads.has(value_kind::weight_gradient) && reads_gradients(plan, op))
    visit(weight_gradient_of(op));
  if (reads.has(value_kind::parameters))
    visit(parameters_of(op));
}

/// Visits the values that an op of a stage writes, in the same order.
template <class Visit>
void for_each_output(const plan& plan, const plan_op& op, Visit visit) {
  const auto& writes = traits_of(op.kind).writes;
  const auto for_stages = [&](value_kind kind) {
    for (const auto& [stage, edge] :
         plan.graph.outputs(op.stage, kind == value_kind::gradient))
      visit(value{kind, op.stage, stage, op.copy, op.slice, op.microbatch});
  };
  if (writes.has(value_kind::activation))
    for_stages(value_kind::activation);
  if (writes.has(value_kind::gradient))
    for_stages(value_kind::gradient);
  if (writes.has(value_kind::context) && plan.training)
    visit(own_value(value_kind::context, op));
  for (const auto kind : {value_kind::hosted, value_kind::deferred})
    if (writes.has(kind))
      visit(own_value(kind, op));
  if (writes.has(value_kind::version) && plan.update.every > 0)
    visit(own_value(value_kind::version, op));
  if (writes.has(value_kind::carry) && op.slice + 1 < plan.slices)
    visit(own_value(value_kind::carry, op));
  if (writes.has(value_kind::carry_gradient) && op.slice > 0)
    visit(own_value(value_kind::carry_gradient, op));
  if (writes.has(value_kind::weight_gradient))
    visit(weight_gradient_of(op));
  if (writes.has(value_kind::parameters) && !follows_update(plan, op))
    visit(parameters_of(op));
}

/// Whether another rank reads what the op makes.
bool leaves_rank(const plan& plan, const plan_op& op);

/// The sending and receiving stages of all messages, ascending; of gradients
/// too.
std::vector<stage_edge> edges_between_ranks(const plan& plan);

// Versions of parameters.

/// The version of its stage's parameters that a forward reads: 0 is that of the
/// step's begin, n that of the stage's n-th update. The plan's dependencies
/// tell, so that every order of execution reads the same.
std::int32_t version_of(const plan& plan, const plan_op& forward);

/// By stage, then microbatch.
std::vector<std::vector<std::int32_t>> versions_of(const plan& plan);

/// By how many updates a version lags behind the one that a plain loop, which
/// runs one microbatch after the other, would read: the most over all forwards
/// of a stage. By stage; all 0 where the parameters change at the step's end
/// only.
std::vector<std::int32_t> staleness_of(const plan& plan);

// Transfers, and the edges of stages that they follow.

/// Whether a result that `stage` gives to `other` leaves its rank.
inline bool crosses(const placement& placement, std::int32_t stage,
                    std::int32_t other, std::int8_t copy) {
  return placement.rank_of(stage, copy) != placement.rank_of(other, copy);
}

/// The stage that a transfer of a chain has at its other end.
constexpr std::int32_t chain_peer(const plan_op& transfer) {
  const bool upwards = transfer.stream == stream_kind::send_forward
                       || transfer.stream == stream_kind::receive_backward;
  return transfer.stage + (upwards ? 1 : -1);
}

/// A compute op's transfer to or from a stage.
constexpr plan_op transfer_of(const plan_op& compute, plan_op_kind kind,
                              bool backward, std::int32_t peer) {
  plan_op transfer{.kind = kind,
                   .copy = compute.copy,
                   .slice = compute.slice,
                   .stage = compute.stage,
                   .microbatch = compute.microbatch,
                   .peer = peer};
  const bool sends = kind == plan_op_kind::send;
  transfer.stream =
    sends ? (backward ? stream_kind::send_backward : stream_kind::send_forward)
          : (backward ? stream_kind::receive_backward
                      : stream_kind::receive_forward);
  return transfer;
}

/// The other half of a message: what a send's peer receives, or a receive's
/// sends.
constexpr plan_op other_half(const plan_op& transfer) {
  const bool sends = transfer.kind == plan_op_kind::send;
  auto other =
    transfer_of(transfer, sends ? plan_op_kind::receive : plan_op_kind::send,
                is_gradient(transfer.stream), transfer.stage);
  other.stage = transfer.peer;
  return other;
}

/// Places of the messages of a plan's edges in tables: by copy, edge that
/// leaves its rank in this copy, microbatch that takes this copy, and slice.
/// The plan's compute ops are a legal step (`validate`).
class edge_slots {
 public:
  explicit edge_slots(const plan& plan);

  /// The number of messages of a direction.
  std::size_t size() const { return size_; }
  /// Whether the op is of the copy that its microbatch takes.
  bool has(const plan_op& op) const {
    return places_[slot(op.microbatch)].copy == op.copy;
  }
  /// The index of an op of an edge between different ranks.
  std::size_t operator()(std::int32_t edge, const plan_op& op) const {
    return first_[slot(op.copy) * edges_ + slot(edge)]
           + places_[slot(op.microbatch)].number * slices_ + slot(op.slice);
  }

 private:
  struct place {
    std::size_t number = 0;  // among the microbatches of its copy
    std::int8_t copy = none;
  };

  /// Places the microbatches; returns how many take each copy.
  std::vector<std::size_t> take_places(const plan& plan);

  std::size_t slices_;
  std::size_t edges_;
  std::size_t size_ = 0;
  std::vector<place> places_;       // by microbatch
  std::vector<std::size_t> first_;  // by copy and edge
};

/// The edge of a transfer in the plan's graph; `none` if there is no such edge.
std::int32_t edge_of(const plan& plan, const plan_op& transfer);

}  // namespace troupe
