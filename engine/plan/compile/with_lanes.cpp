#include <algorithm>

#include "troupe/engine/plan/compile/passes.hpp"

namespace troupe {

plan with_lanes(const plan& before,
                const std::vector<std::vector<plan_op>>& lanes) {
  plan result{.schedule_name = before.schedule_name,
              .microbatches = before.microbatches,
              .slices = before.slices,
              .training = before.training,
              .global_norm = before.global_norm,
              .placement = before.placement,
              .graph = before.graph,
              .update = before.update};
  for (const auto& lane : lanes) {
    result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
    result.ops.insert(result.ops.end(), lane.begin(), lane.end());
  }
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  for (auto& what : result.ops)
    what.message = none;  // numbered anew
  connect(result);
  grant_credits(result, 0);
  for (std::size_t i = 0; i < result.channels.size(); ++i)
    result.channels[i].credits = before.channels[i].credits;
  return result;
}

}  // namespace troupe
