#include "troupe/engine/plan/search/compare.hpp"

#include <algorithm>
#include <tuple>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

schedule_shape shape_for(const builtin_schedule& row, schedule_shape shape) {
  const auto& rule = row.stages_per_rank;
  auto& stages = shape.stages_per_rank;
  stages = std::clamp(stages, rule.least, rule.most);
  if (rule.even && stages % 2 != 0)
    ++stages;
  if (!row.has_slices)
    shape.slices = 1;
  if (!row.has_breadth)
    shape.breadth = 0;
  return shape;
}

}  // namespace

compared_schedule compared(const schedule& lanes, const comparison& job,
                           compared_schedule row) {
  const auto step = compile(lanes, {.data_parallel = job.data_parallel});
  const auto cut = division_of(row.shape);
  const auto times = simulate(step, divided(job.costs, cut));
  row.makespan = times.makespan;
  row.period = times.period;
  row.idle = times.bubble;
  row.in_flight = static_cast<double>(std::ranges::max(times.in_flight))
                  / (row.shape.stages_per_rank * row.shape.slices);
  row.messages = step.messages.size();
  if (job.sizes)
    row.peak_bytes = std::ranges::max(peak_bytes(
      step, times, {.usual = divided(*job.sizes, cut), .of_stage = {}}));
  return row;
}

std::vector<compared_schedule> compare_schedules(const comparison& job) {
  if (!job.costs.of_stage.empty() || !job.costs.of_op.empty())
    throw error(
      error_code::invalid_argument,
      "schedules are compared by costs per kind of op, which each schedule "
      "divides among its stages; omit costs of single stages");
  std::vector<compared_schedule> all;
  for (const auto& builtin : builtin_schedules()) {
    compared_schedule row{.name = std::string{builtin.name},
                          .shape = shape_for(builtin, job.shape)};
    try {
      const auto lanes = make_schedule(builtin.name, row.shape);
      if (!is_training(lanes))
        continue;
      row = compared(lanes, job, std::move(row));
    } catch (const error& reason) {
      row.refused = reason.what();
    }
    all.push_back(std::move(row));
  }
  std::ranges::stable_sort(all, {}, [](const compared_schedule& row) {
    return std::tuple(!row.refused.empty(), row.period, row.in_flight);
  });
  return all;
}

}  // namespace troupe
