#include "troupe/engine/plan/compile/compile.hpp"

#include <algorithm>
#include <set>

#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

std::vector<std::int32_t> tied_stages(const plan& of) {
  std::set<std::int32_t> stages;
  for (const auto& op : of.ops)
    if (op.kind == plan_op_kind::sum_tied)
      stages.insert(op.stage);
  return {stages.begin(), stages.end()};
}

plan compile(const schedule& lanes, const compile_options& options) {
  validate(lanes);
  plan result;
  place_ops(lanes, options, result);
  connect(result);
  grant_credits(result, options.credits);
  return result;
}

compile_options options_like(const plan& current) {
  const bool reduces =
    std::ranges::count(current.ops, plan_op_kind::reduce, &plan_op::kind) > 0;
  return {.data_parallel = reduces ? 2 : 1,
          .global_norm = current.global_norm,
          .graph = current.graph,
          .tied = tied_stages(current)};
}

}  // namespace troupe
