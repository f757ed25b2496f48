#include "troupe/monitors/step_times.hpp"

#include <algorithm>

#include "troupe/engine/plan/compile/overlapped_pairs.hpp"

namespace troupe {

namespace {

double to_seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// Without copies that a device makes beside the rank's compute ops.
std::vector<op_record> on_own_time(const plan& plan,
                                   std::vector<op_record> ops) {
  std::erase_if(ops, [&](const op_record& op) {
    return op.host_begin != 0 && is_copy(plan.ops[op.op].kind);
  });
  return ops;
}

}  // namespace

step_extent extent_of(const std::vector<ops_event>& ops) {
  step_extent all;
  for (const auto& rank : ops)
    for (const auto& op : rank.ops) {
      all.begin = std::min(all.begin, op.begin);
      all.end = std::max(all.end, op.end);
    }
  return all;
}

std::int64_t busy_time(std::vector<op_record> ops) {
  std::ranges::sort(ops, {}, &op_record::begin);
  auto until = std::numeric_limits<std::int64_t>::min();
  std::int64_t busy = 0;
  for (const auto& op : ops) {
    busy += std::max<std::int64_t>(0, op.end - std::max(op.begin, until));
    until = std::max(until, op.end);
  }
  return busy;
}

std::vector<std::int64_t> op_times(const plan& plan, const ops_event& rank) {
  std::vector<std::int64_t> times;
  const op_record* first = nullptr;  // of a pair
  for (const auto& op : rank.ops) {
    times.push_back(op.end - op.begin);
    if (!is_compute(plan.ops[op.op].kind))
      continue;
    if (first && partner_of(plan, first->op) == op.op)
      times.back() -= std::max<std::int64_t>(
        0, std::min(first->end, op.end) - std::max(first->begin, op.begin));
    first = &op;
  }
  return times;
}

op_costs measured_costs(const plan& plan, const std::vector<ops_event>& ops,
                        std::int32_t data_rank) {
  op_costs costs;
  costs.of_op.assign(plan.ops.size(), 0.0);
  for (const auto& rank : ops) {
    if (rank.source.data_rank != data_rank)
      continue;
    const auto times = op_times(plan, rank);
    for (std::size_t i = 0; i < times.size(); ++i)
      costs.of_op[rank.ops[i].op] = to_seconds(times[i]);
  }
  return costs;
}

double bubble_of(const plan& plan, const std::vector<ops_event>& ops) {
  const auto [begin, end] = extent_of(ops);
  std::int64_t busy = 0;
  for (const auto& rank : ops)
    busy += busy_time(on_own_time(plan, rank.ops));
  if (ops.empty() || end <= begin)
    return 0;
  return 1
         - to_seconds(busy)
             / (to_seconds(end - begin) * static_cast<double>(ops.size()));
}

step_times times_of(const plan& plan, const std::vector<ops_event>& ops) {
  const auto [begin, end] = extent_of(ops);
  std::int32_t replicas = 0;
  for (const auto& rank : ops)
    replicas = std::max(replicas, rank.source.data_rank + 1);
  step_times times;
  if (ops.empty() || end <= begin)
    return times;
  times.seconds = to_seconds(end - begin);
  times.bubble = bubble_of(plan, ops);
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
