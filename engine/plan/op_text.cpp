#include "troupe/engine/plan/op_text.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace troupe {

namespace {

std::string_view action(const plan_op& what) {
  constexpr std::array<std::string_view, 11> names{
    "F",       "B",       "I",           "W",    "SEND_F", "RECV_F",
    "UNSHARD", "RESHARD", "REDUCE_GRAD", "NORM", "UPDATE"};
  if (is_transfer(what.kind) && is_gradient(what.stream))
    return what.kind == plan_op_kind::send ? "SEND_B" : "RECV_B";
  return names[static_cast<std::size_t>(what.kind)];
}

}  // namespace

std::string to_text(const plan& of, const plan_op& what) {
  auto text = fmt::format("{}{}", what.stage, action(what));
  if (what.microbatch != none)
    text += std::to_string(what.microbatch);
  if (what.microbatch != none && of.slices > 1)
    text += fmt::format(".{}", what.slice);
  if (what.copy != 0)
    text += fmt::format("@{}", what.copy);
  return text;
}

std::string to_text(const plan& of, std::uint32_t op) {
  return to_text(of, of.ops[op]);
}

const char* long_name(plan_op_kind kind) {
  switch (kind) {
    case plan_op_kind::forward:
      return "forward";
    case plan_op_kind::backward:
      return "backward";
    case plan_op_kind::input_backward:
      return "input backward";
    case plan_op_kind::weight_backward:
      return "weight backward";
    case plan_op_kind::reduce:
      return "reduce";
    default:
      return "norm and update";
  }
}

}  // namespace troupe
