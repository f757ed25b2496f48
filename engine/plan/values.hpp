#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What a compute op gives to another stage: a forward its outputs, a B or an I
/// the gradients of its inputs. Named by both stages, on whichever ranks they
/// are.
struct value {
  bool gradient = false;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int8_t copy = 0;
  std::int16_t slice = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const value&, const value&) = default;
};

/// "activation of microbatch 3 slice 0 from stage 1 to stage 2".
std::string to_text(const value& of);

/// The value that a transfer moves.
value moved_by(const plan_op& transfer);

/// Visits the values that a compute op reads, by ascending stage.
template <class Visit>
void for_each_input(const plan& within, const plan_op& op, Visit visit) {
  const bool backward = takes_gradient(op.kind);
  if (op.kind == plan_op_kind::forward || backward)
    for (const auto& [stage, edge] : within.graph.inputs(op.stage, backward))
      visit(value{backward, stage, op.stage, op.copy, op.slice, op.microbatch});
}

/// Visits the values that a compute op makes, by ascending stage.
template <class Visit>
void for_each_output(const plan& within, const plan_op& op, Visit visit) {
  const bool backward = takes_gradient(op.kind);
  if (op.kind == plan_op_kind::forward || backward)
    for (const auto& [stage, edge] : within.graph.outputs(op.stage, backward))
      visit(value{backward, op.stage, stage, op.copy, op.slice, op.microbatch});
}

/// Whether another rank reads what the op makes.
bool leaves_rank(const plan& within, const plan_op& op);

/// The sending and receiving stages of all messages, ascending; of gradients
/// too.
std::vector<stage_edge> edges_between_ranks(const plan& of);

}  // namespace troupe
