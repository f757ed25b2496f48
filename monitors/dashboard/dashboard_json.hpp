#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/dashboard/curve.hpp"
#include "troupe/monitors/dashboard/dashboard_subject.hpp"
#include "troupe/monitors/dashboard/heat_map.hpp"

namespace troupe {

// The parts of what a dashboard's page reads, short, as they are read each
// second: lists where an object would repeat its names. docs/monitors.md names
// their fields.

template <class List, class Row>
nlohmann::json json_rows(const List& list, Row row) {
  auto result = nlohmann::json::array();
  for (const auto& each : list)
    result.push_back(row(each));
  return result;
}

/// {"from", "points": [[step, mean, low, high, not finite]]}
nlohmann::json json_of(const curve::part& part);

/// {"step", "columns", "cut", "activation": [[max|x|, l2, mean, not finite]],
/// "gradient"}; null for a cell that nothing was seen of, NaN where no value is
/// finite.
nlohmann::json json_of(const heat_map& map);

/// {"step", "begin", "spans": [[row, kind, stage, microbatch, start, end]],
/// "waits": [[row, kind, start, end]]}; `begin` in ms from the first step's
/// first op, times in us from the step's.
nlohmann::json step_json(const plan& plan, const std::vector<ops_event>& ops,
                         std::int64_t origin);

/// {"in_step", "ranks": [{"replica", "rank", "doing", "stage", "op", "for"}],
/// "monitors": [{"name", "trouble", "waiting", "dropped"}]}
nlohmann::json json_of(const run_health& health);

/// {"why": "asked", "failed" or "success", "reason"}; null before.
nlohmann::json json_of(const std::optional<run_end>& end);

/// A step's numbers.
nlohmann::json summary_json(const plan& plan, const step_event& step,
                            const std::vector<ops_event>& ops);

/// Facts that don't change during a run.
nlohmann::json facts_json(const plan& plan, const dashboard_subject& subject);

}  // namespace troupe
