#include "troupe/engine/plan/versions.hpp"

#include <algorithm>

#include "troupe/schedules/validate.hpp"

namespace troupe {

std::int32_t version_of(const plan& plan, const plan_op& forward) {
  for (const auto input : plan.dependencies_of(forward))
    if (const auto& op = plan.ops[input]; op.kind == plan_op_kind::update)
      return update_number(plan, op.microbatch) + 1;
  return 0;
}

std::vector<std::vector<std::int32_t>> versions_of(const plan& plan) {
  std::vector<std::vector<std::int32_t>> versions(
    static_cast<std::size_t>(plan.stages()),
    std::vector<std::int32_t>(static_cast<std::size_t>(plan.microbatches), 0));
  for (const auto& op : plan.ops)
    if (op.kind == plan_op_kind::forward)
      versions[static_cast<std::size_t>(op.stage)]
              [static_cast<std::size_t>(op.microbatch)] = version_of(plan, op);
  return versions;
}

std::vector<std::int32_t> staleness_of(const plan& plan) {
  std::vector<std::int32_t> most;
  for (const auto& versions : versions_of(plan)) {
    most.push_back(0);
    for (std::int32_t k = 0; k < plan.microbatches; ++k)
      most.back() =
        std::max(most.back(), update_number(plan, k)
                                - versions[static_cast<std::size_t>(k)]);
  }
  return most;
}

}  // namespace troupe
