#include "troupe/monitors/dashboard/dashboard_json.hpp"

#include <unistd.h>

#include <array>
#include <cmath>
#include <utility>

#include "troupe/base/json.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/monitors/step_times.hpp"
#include "troupe/monitors/timing/timeline.hpp"

namespace troupe {

using nlohmann::json;

namespace {

std::int64_t microseconds(double ms) {
  return std::llround(ms * 1e3);
}

}  // namespace

json json_of(const curve::part& part) {
  const auto row = [](const curve_point& each) -> json {
    return {each.step, json_number(each.mean()), json_number(each.low),
            json_number(each.high), each.not_finite};
  };
  return {{"from", part.from}, {"points", json_rows(part.points, row)}};
}

json json_of(const heat_map& map) {
  const auto cell = [](const heat_cell& each) -> json {
    if (!each.seen)
      return nullptr;
    if (each.finite == 0 && each.not_finite > 0) {
      const auto nan = json_number(std::nan(""));
      return {nan, nan, nan, each.not_finite};
    }
    const auto mean =
      each.finite > 0 ? each.sum / static_cast<double>(each.finite) : 0;
    return {json_number(each.max_abs), json_number(std::sqrt(each.squares)),
            json_number(mean), each.not_finite};
  };
  return {{"step", map.step},
          {"columns", map.columns},
          {"cut", map.is_cut()},
          {"activation", json_rows(map.activations, cell)},
          {"gradient", json_rows(map.gradients, cell)}};
}

json step_json(const plan& plan, const std::vector<ops_event>& ops,
               std::int64_t origin) {
  const auto drawn = measured_timeline(plan, ops);
  const auto span = [](const auto& each) -> json {
    return {
      each.rank,       traits_of(each.kind).action, each.stage,
      each.microbatch, microseconds(each.start),    microseconds(each.end)};
  };
  const auto wait = [](const auto& each) -> json {
    return {each.rank, static_cast<int>(each.kind), microseconds(each.start),
            microseconds(each.end)};
  };
  return {{"step", ops.front().source.step},
          {"begin", static_cast<double>(extent_of(ops).begin - origin) * 1e-6},
          {"spans", json_rows(drawn.spans, span)},
          {"waits", json_rows(drawn.waits, wait)}};
}

json json_of(const run_health& health) {
  const auto rank = [](const rank_health& each) -> json {
    constexpr std::array states{"idle", "running", "waiting", "elsewhere"};
    return {{"replica", each.data_rank},
            {"rank", each.rank},
            {"doing", states.at(static_cast<std::size_t>(each.doing))},
            {"stage", each.stage},
            {"op", each.op},
            {"for", each.waits_for}};
  };
  const auto monitor = [](const monitor_health& each) -> json {
    return {{"name", each.name},
            {"trouble", each.trouble},
            {"waiting", each.waiting},
            {"dropped", each.dropped}};
  };
  return {{"in_step", health.in_step},
          {"ranks", json_rows(health.ranks, rank)},
          {"monitors", json_rows(health.monitors, monitor)}};
}

json json_of(const std::optional<run_end>& end) {
  constexpr std::array kinds{"asked", "failed", "success"};
  if (!end)
    return nullptr;
  return {{"why", kinds.at(static_cast<std::size_t>(end->why))},
          {"reason", end->reason}};
}

json summary_json(const plan& plan, const step_event& step,
                  const std::vector<ops_event>& ops) {
  const auto times = ops.empty() ? step_times{} : times_of(plan, ops);
  const auto named = [](const named_value& each) -> json {
    return {each.name, each.counts() ? json_number(each.value) : json()};
  };
  return {{"step", step.source.step},
          {"losses", json_rows(step.losses, named)},
          {"metrics", json_rows(step.metrics, named)},
          {"grad_norm", json_number(step.gradient_norm)},
          {"lr", json_number(step.learning_rate)},
          {"loss_scale", json_number(step.loss_scale)},
          {"updated", step.updated},
          {"seconds", json_number(seconds_of(step))},
          {"tokens_per_second", json_number(tokens_per_second(step))},
          {"bubble", json_number(times.bubble)},
          {"plan_bubble", json_number(times.plan_bubble)},
          {"memory_bytes", step.resident_bytes},
          {"observe_seconds", json_number(step.observe_seconds)},
          {"monitor_seconds", json_number(step.monitor_seconds)}};
}

json facts_json(const plan& plan, const dashboard_subject& subject) {
  auto ranks = json::array();  // by stage
  for (std::int32_t stage = 0; stage < plan.stages(); ++stage)
    ranks.push_back(plan.placement.rank_of(stage));
  const auto& about = subject.description;
  return {{"name", about.name},
          {"model", about.model},
          {"command", about.command},
          {"clips", subject.clips},
          {"schedule", plan.schedule_name},
          {"ranks", plan.ranks()},
          {"replicas", subject.data_parallel},
          {"stages", plan.stages()},
          {"microbatches", plan.microbatches},
          {"rank_of_stage", std::move(ranks)},
          {"pid", ::getpid()}};
}

}  // namespace troupe
