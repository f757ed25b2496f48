#include "troupe/monitors/dashboard/dashboard_json.hpp"

#include <unistd.h>

#include <cmath>

#include "troupe/base/json.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/monitors/timing/step_times.hpp"
#include "troupe/monitors/timing/timeline.hpp"

namespace troupe {

using nlohmann::json;

namespace {

std::int64_t microseconds(double ms) {
  return std::llround(ms * 1e3);
}

const char* name_of(progress_board::state doing) {
  switch (doing) {
    case progress_board::state::running:
      return "running";
    case progress_board::state::waiting:
      return "waiting";
    case progress_board::state::elsewhere:
      return "elsewhere";
    default:
      return "idle";
  }
}

json json_of(const std::vector<heat_cell>& cells) {
  auto list = json::array();
  for (const auto& each : cells) {
    if (!each.seen) {
      list.push_back(nullptr);
      continue;
    }
    const auto mean =
      each.finite > 0 ? each.sum / static_cast<double>(each.finite) : 0;
    list.push_back({json_number(each.max_abs),
                    json_number(std::sqrt(each.squares)), json_number(mean),
                    each.not_finite});
  }
  return list;
}

json json_of(const std::vector<named_value>& values) {
  auto list = json::array();
  for (const auto& each : values)
    list.push_back({each.name, json_number(each.value)});
  return list;
}

json step_json(const plan& plan, const std::vector<ops_event>& ops,
               std::int64_t origin) {
  const auto drawn = measured_timeline(plan, ops);
  auto spans = json::array(), waits = json::array();
  for (const auto& each : drawn.spans)
    spans.push_back({each.rank, traits_of(each.kind).action, each.stage,
                     each.microbatch, microseconds(each.start),
                     microseconds(each.end)});
  for (const auto& each : drawn.waits)
    waits.push_back({each.rank, static_cast<int>(each.kind),
                     microseconds(each.start), microseconds(each.end)});
  return {{"step", ops.front().source.step},
          {"begin", static_cast<double>(extent_of(ops).begin - origin) * 1e-6},
          {"spans", std::move(spans)},
          {"waits", std::move(waits)}};
}

}  // namespace

json json_of(const curve::part& part) {
  auto points = json::array();
  for (const auto& each : part.points)
    points.push_back({each.step, json_number(each.mean()),
                      json_number(each.low), json_number(each.high),
                      each.not_finite});
  return {{"from", part.from}, {"points", std::move(points)}};
}

json json_of(const heat_map& map) {
  return {{"step", map.step},
          {"columns", map.columns},
          {"cut", map.is_cut()},
          {"activation", json_of(map.activations)},
          {"gradient", json_of(map.gradients)}};
}

json timeline_json(
  const plan& plan,
  const std::deque<std::shared_ptr<const std::vector<ops_event>>>& steps) {
  auto list = json::array();
  for (const auto& step : steps)
    list.push_back(step_json(plan, *step, extent_of(*steps.front()).begin));
  return list;
}

json json_of(const run_health& health) {
  auto ranks = json::array(), monitors = json::array();
  for (const auto& each : health.ranks)
    ranks.push_back({{"replica", each.data_rank},
                     {"rank", each.rank},
                     {"doing", name_of(each.doing)},
                     {"stage", each.stage},
                     {"op", each.op},
                     {"for", each.waits_for}});
  for (const auto& each : health.monitors)
    monitors.push_back({{"name", each.name},
                        {"trouble", each.trouble},
                        {"waiting", each.waiting},
                        {"dropped", each.dropped}});
  return {{"in_step", health.in_step},
          {"ranks", std::move(ranks)},
          {"monitors", std::move(monitors)}};
}

json summary_json(const plan& plan, const step_event& step,
                  const std::vector<ops_event>& ops) {
  const auto seconds = static_cast<double>(step.end - step.begin) * 1e-9;
  const auto times = ops.empty() ? step_times{} : times_of(plan, ops);
  return {
    {"step", step.source.step},
    {"losses", json_of(step.losses)},
    {"metrics", json_of(step.metrics)},
    {"grad_norm", json_number(step.gradient_norm)},
    {"lr", json_number(step.learning_rate)},
    {"loss_scale", json_number(step.loss_scale)},
    {"updated", step.updated},
    {"seconds", json_number(seconds)},
    {"tokens_per_second",
     json_number(static_cast<double>(step.tokens) / seconds)},
    {"bubble", json_number(times.bubble)},
    {"plan_bubble", json_number(times.plan_bubble)},
    {"memory_bytes", step.resident_bytes},
    {"observe_seconds", json_number(step.observe_seconds)},
    {"monitor_seconds", json_number(step.monitor_seconds)},
  };
}

json facts_json(const plan& plan, std::int32_t data_parallel) {
  auto ranks = json::array();  // by stage
  for (std::int32_t stage = 0; stage < plan.stages(); ++stage)
    ranks.push_back(plan.placement.rank_of(stage));
  return {{"schedule", plan.schedule_name},
          {"ranks", plan.ranks()},
          {"replicas", data_parallel},
          {"stages", plan.stages()},
          {"microbatches", plan.microbatches},
          {"rank_of_stage", std::move(ranks)},
          {"pid", ::getpid()}};
}

}  // namespace troupe
