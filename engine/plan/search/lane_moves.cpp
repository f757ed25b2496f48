#include "troupe/engine/plan/search/lane_moves.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool gives_gradient(op_kind kind) {
  return kind == op_kind::backward || kind == op_kind::input_backward;
}

bool may_pass(const op& a, const op& b) {
  if (a.stage != b.stage || a.copy != b.copy)
    return true;
  return a.kind != b.kind
         && !(frees_activation(a.kind) && frees_activation(b.kind))
         && !(gives_gradient(a.kind) && gives_gradient(b.kind))
         && (a.microbatch != b.microbatch || a.slice != b.slice);
}

}  // namespace

bool move_op(lane& ops, std::size_t from, std::size_t to) {
  const auto begin = from;
  while (from < to && may_pass(ops[from], ops[from + 1])) {
    std::swap(ops[from], ops[from + 1]);
    ++from;
  }
  while (from > to && may_pass(ops[from - 1], ops[from])) {
    std::swap(ops[from - 1], ops[from]);
    --from;
  }
  return from != begin;
}

bool split_backward(lane& ops, std::size_t at) {
  if (ops[at].kind != op_kind::backward)
    return false;
  auto weights = ops[at];
  weights.kind = op_kind::weight_backward;
  ops[at].kind = op_kind::input_backward;
  ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, weights);
  return true;
}

bool join_backward(lane& ops, std::size_t at) {
  if (ops[at].kind != op_kind::input_backward)
    return false;
  const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(at);
  const auto weights = std::find_if(begin, ops.end(), [&](const op& each) {
    return each.stage == begin->stage && each.copy == begin->copy
           && frees_activation(each.kind);
  });
  if (weights == ops.end() || weights->microbatch != begin->microbatch
      || weights->slice != begin->slice)
    return false;
  begin->kind = op_kind::backward;
  ops.erase(weights);
  return true;
}

void split_backwards(schedule& lanes) {
  for (auto& ops : lanes.lanes)
    for (std::size_t i = 0; i < ops.size(); ++i)
      split_backward(ops, i);
}

bool has_split_backward(const schedule& lanes) {
  return std::ranges::any_of(lanes.lanes, [](const lane& ops) {
    return std::ranges::find(ops, op_kind::input_backward, &op::kind)
           != ops.end();
  });
}

void end_pairs(schedule& lanes) {
  for (auto& ops : lanes.lanes)
    for (auto& each : ops)
      each.overlaps_next = false;
}

}  // namespace troupe
