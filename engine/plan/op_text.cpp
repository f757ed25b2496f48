#include "troupe/engine/plan/op_text.hpp"

#include <fmt/format.h>

#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/values.hpp"

namespace troupe {

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
