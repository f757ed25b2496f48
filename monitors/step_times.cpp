#include "troupe/monitors/step_times.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

double to_seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

op_costs measured_costs(const plan& plan, const std::vector<ops_event>& ops,
                        std::int32_t data_rank) {
  op_costs costs;
  costs.of_op.assign(plan.ops.size(), 0.0);
  for (const auto& rank : ops) {
    if (rank.source.data_rank != data_rank)
      continue;
    for (const auto& op : rank.ops)
      costs.of_op[op.op] = to_seconds(op.end - op.begin);
  }
  return costs;
}

step_times times_of(const plan& plan, const std::vector<ops_event>& ops) {
  auto begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  std::int64_t busy = 0;
  std::int32_t replicas = 0;
  for (const auto& rank : ops) {
    replicas = std::max(replicas, rank.source.data_rank + 1);
    for (const auto& op : rank.ops) {
      begin = std::min(begin, op.begin);
      end = std::max(end, op.end);
      busy += op.end - op.begin;
    }
  }
  step_times times;
  if (ops.empty() || end <= begin)
    return times;
  times.seconds = to_seconds(end - begin);
  times.bubble =
    1 - to_seconds(busy) / (times.seconds * static_cast<double>(ops.size()));
  for (std::int32_t d = 0; d < replicas; ++d) {
    const auto paper = simulate(plan, measured_costs(plan, ops, d));
    if (paper.makespan > times.plan_seconds) {
      times.plan_seconds = paper.makespan;
      times.plan_bubble = paper.bubble;
    }
  }
  return times;
}

}  // namespace troupe
