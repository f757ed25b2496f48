#include "troupe/engine/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/values.hpp"

namespace troupe {

namespace {

constexpr bool is_same(op_kind schedules, plan_op_kind plans) {
  return static_cast<int>(schedules) == static_cast<int>(plans);
}
static_assert(is_same(op_kind::forward, plan_op_kind::forward)
                && is_same(op_kind::backward, plan_op_kind::backward)
                && is_same(op_kind::input_backward,
                           plan_op_kind::input_backward)
                && is_same(op_kind::weight_backward,
                           plan_op_kind::weight_backward),
              "a plan's compute ops are the ops of its schedule");

constexpr bool has_all_kinds() {
  for (std::size_t kind = 0; kind < op_kinds; ++kind)
    if (std::ranges::count(op_actions, static_cast<plan_op_kind>(kind),
                           &op_traits::kind)
        != (is_transfer(static_cast<plan_op_kind>(kind)) ? 2 : 1))
      return false;
  return op_actions.size() == op_kinds + 2;
}
static_assert(has_all_kinds(),
              "op_actions has a row for each kind, a transfer's two");

constexpr bool has_gradients_last() {
  for (std::size_t kind = 1; kind < op_kinds; ++kind)
    if (is_of_gradients(static_cast<plan_op_kind>(kind - 1))
        && !is_of_gradients(static_cast<plan_op_kind>(kind)))
      return false;
  return is_of_gradients(static_cast<plan_op_kind>(op_kinds - 1));
}
static_assert(has_gradients_last(),
              "ops on gradients are the last kinds, in their order");

}  // namespace

std::string to_text(const plan& plan, const plan_op& what) {
  auto text = fmt::format("{}{}", what.stage, traits_of(what).action);
  if (what.microbatch != none)
    text += std::to_string(what.microbatch);
  if (what.microbatch != none && (plan.slices > 1 || what.slice != 0))
    text += fmt::format(".{}", what.slice);
  if (what.copy != 0)
    text += fmt::format("@{}", what.copy);
  if (is_transfer(what.kind) && what.peer != chain_peer(what))
    text += fmt::format("{}{}", what.kind == plan_op_kind::send ? '>' : '<',
                        what.peer);
  return text;
}

std::string to_text(const plan& plan, std::uint32_t op) {
  return to_text(plan, plan.ops[op]);
}

}  // namespace troupe
