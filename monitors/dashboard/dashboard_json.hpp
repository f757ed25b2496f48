#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/dashboard/curve.hpp"
#include "troupe/monitors/dashboard/heat_map.hpp"

namespace troupe {

// The parts of what a dashboard's page reads, short, as they are read each
// second: lists where an object would repeat its names. docs/monitors.md names
// their fields.

/// {"from", "points": [[step, mean, low, high, not finite]]}
nlohmann::json json_of(const curve::part& part);

/// {"step", "columns", "cut", "activation": [[max|x|, l2, mean, not finite]],
/// "gradient"}; null for a cell that nothing was seen of.
nlohmann::json json_of(const heat_map& map);

/// Each step: {"step", "begin", "spans": [[row, kind, stage, microbatch,
/// start, end]], "waits": [[row, kind, start, end]]}; `begin` in ms from the
/// first step's first op, times in us from the step's.
nlohmann::json timeline_json(
  const plan& plan,
  const std::deque<std::shared_ptr<const std::vector<ops_event>>>& steps);

/// {"in_step", "ranks": [{"replica", "rank", "doing", "stage", "op", "for"}],
/// "monitors": [{"name", "trouble", "waiting", "dropped"}]}
nlohmann::json json_of(const run_health& health);

/// A step's numbers.
nlohmann::json summary_json(const plan& plan, const step_event& step,
                            const std::vector<ops_event>& ops);

/// Facts that don't change during a run.
nlohmann::json facts_json(const plan& plan, std::int32_t data_parallel);

}  // namespace troupe
