#include "troupe/monitors/live/serve.hpp"

#include <unistd.h>

#include <atomic>

#include "troupe/engine/plan/text/plan_text.hpp"

namespace troupe {

namespace {

using nlohmann::json;
using last_step = std::atomic<std::int64_t>;

monitor step_watch(std::shared_ptr<last_step> seen) {
  monitor result;
  result.name = "endpoint";
  result.wants.warnings = false;
  result.see = [seen = std::move(seen)](const event& what) {
    if (const auto* step = std::get_if<step_event>(&what))
      *seen = step->source.step;
  };
  return result;
}

}  // namespace

job_operations operations_of(trainer& run, decltype(job_operations::make) make,
                             std::int64_t steps) {
  const auto seen = std::make_shared<last_step>(0);
  run.attach(step_watch(seen));
  job_operations operations;
  operations.attach = [&run](monitor watcher) {
    return run.attach(std::move(watcher));
  };
  operations.detach = [&run](std::int64_t id) { run.detach(id); };
  operations.make = std::move(make);
  operations.plan = [&run] { return to_text(*run.shared_plan()); };
  operations.info = [&run, seen, steps]() -> json {
    const auto plan = run.shared_plan();
    const auto health = run.health();
    return {{"pid", ::getpid()},
            {"schedule", plan->schedule_name},
            {"ranks", plan->ranks()},
            {"stages", plan->stages()},
            {"microbatches", plan->microbatches},
            {"messages", plan->messages.size()},
            {"steps", steps},
            {"step", seen->load()},
            {"in_step", health.in_step},
            {"failure", health.failure},
            {"interrupted", health.interrupted},
            {"ended", health.end ? json(health.end->reason) : json()}};
  };
  return operations;
}

}  // namespace troupe
