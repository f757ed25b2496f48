#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/dashboard/curve.hpp"
#include "troupe/monitors/dashboard/dashboard_subject.hpp"
#include "troupe/monitors/dashboard/heat_map.hpp"
#include "troupe/monitors/sink.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

/// A run as the page draws it, in bounded memory however long it trains:
/// curves of at most 2000 points, the last steps' ops, one heat map, the last
/// 200 alerts, the latest values of 200 metrics. Any thread.
class dashboard_data {
 public:
  explicit dashboard_data(dashboard_subject subject);

  /// Ops, steps and warnings.
  void see(const event& what);
  /// Tensors, and the steps that they belong to.
  void see_tensors(const event& what);
  void add(const alert& what);
  void add(const metrics_record& record);
  /// A line of the program's log; kind: "warning" or "error".
  void add_warning(const char* kind, const std::string& text);

  /// The run is over: what the actors did last stays, and `health` is asked no
  /// more.
  void end();

  /// The changes after a revision; 0: all. docs/monitors.md has the fields.
  /// Made on request only.
  nlohmann::json since(std::int64_t revision) const;

 private:
  struct kept_alert {
    std::int64_t revision;
    event_source source;
    const char* kind;
    std::string origin, text;
  };
  struct latest_value {
    std::int64_t revision, step;
    double value;
  };
  using kept_step = std::shared_ptr<const std::vector<ops_event>>;
  /// The data that `since` reads: from a copy, so that nobody waits while JSON
  /// is made.
  struct content {
    std::int64_t revision = 1;
    std::optional<step_event> last_step;
    std::int64_t stepped = 0;                  // revision of the last step
    std::int64_t begun = 0;                    // the first step, in ns
    std::int64_t tokens = 0;                   // of all steps
    std::shared_ptr<const troupe::plan> plan;  // that the kept steps ran
    std::deque<kept_step> steps;
    std::map<std::string, curve> curves;
    std::shared_ptr<const heat_map> heat;
    std::int64_t heated = 0;
    std::deque<kept_alert> alerts;
    std::int64_t alerted = 0;  // alerts in all
    std::map<std::string, latest_value> metrics;
    std::int64_t unkept_metrics = 0;
    std::vector<std::int64_t> slow_loads;  // by replica
    std::string failure;
    event_source failed_at;  // rank: none for a failure of no op
    std::string failed_op;
    bool over = false;
    run_health health;  // once it is over
  };

  /// Alerts and metrics since the revision.
  static void add_findings(const content& now, std::int64_t revision,
                           nlohmann::json& news);
  void add_step(const step_event& step, const std::vector<ops_event>& ops);
  void keep_ops(const std::vector<ops_event>& ops);
  void add_alert(const event_source& source, const char* kind,
                 std::string start, std::string text);

  const dashboard_subject subject_;
  const std::string run_;  // tells this run from one that had the port before
  mutable std::mutex mutex_;
  content kept_;
  step_collector collector_;
  heat_map next_heat_;  // of the step that runs
};

}  // namespace troupe
