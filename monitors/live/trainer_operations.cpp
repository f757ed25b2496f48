#include "troupe/monitors/live/trainer_operations.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "troupe/actors/job/hosting.hpp"
#include "troupe/actors/job/job_members.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/rank_load.hpp"
#include "troupe/monitors/live/replanner.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

using nlohmann::json;
using last_step = std::atomic<std::int64_t>;

memory_bound bound_of(const json& request, const plan& current) {
  memory_bound bound;
  if (request.contains("memory_limit"))
    bound.bytes = field<double>(request, "memory_limit");
  if (request.contains("sizes"))
    bound.sizes =
      parse_sizes(field<std::string>(request, "sizes"), division_of(current));
  if (bound.bytes > 0 && !bound.sizes)
    throw error(error_code::invalid_argument,
                "a memory limit needs the sizes of the stages' values");
  return bound;
}

/// A schedule of the run's own sizes. A refusal advises other sizes, by their
/// flags, which a live run can't take up.
schedule order_by_name(const std::string& name, const plan& current) {
  try {
    return make_schedule(name,
                         {.ranks = current.ranks(),
                          .stages_per_rank = current.stages() / current.ranks(),
                          .microbatches = current.microbatches,
                          .slices = current.slices});
  } catch (const error& reason) {
    const std::string text = reason.what();
    const auto advice = text.find(": the nearest legal ");
    if (advice == text.npos)
      throw;
    throw error(reason.code(),
                text.substr(0, advice)
                  + ", which a live job can't change; start another job, or "
                    "give a schedule for these sizes");
  }
}

schedule order_of(const json& request, const plan& current) {
  if (!request.contains("text"))
    return order_by_name(field<std::string>(request, "schedule"), current);
  const auto text = field<std::string>(request, "text");
  const auto source = printable(field<std::string>(request, "source"));
  return is_text_form(text) ? from_text_form(text, source)
                            : from_csv(text, source);
}

/// Answers `troupe replan`: `{"schedule": NAME}`, `{"text": FORM, "source":
/// NAME}` or `{"search": true}`, with `{"sizes": ENTRIES, "memory_limit":
/// BYTES}` for a search -> `{"schedule", "taken", "same", "now",
/// "then", "uncertainty", "predicted", "trial_steps"}`: times of a step in ms,
/// null before the first step. `current`: the plan that the run executes.
/// Throws `error`.
json replan(const replanner& orders, const plan& current, const json& request) {
  const auto asks = [&](const char* flag) { return has_flag(request, flag); };
  const auto result =
    asks("search") ? orders.search(bound_of(request, current))
                   : orders.take(order_of(request, current), asks("force"));
  const auto ms = [](double value) { return value > 0 ? json(value) : json(); };
  return {{"schedule", result.order.name},
          {"taken", result.taken},
          {"same", result.same},
          {"now", ms(result.now)},
          {"then", ms(result.then)},
          {"uncertainty", result.uncertainty},
          {"predicted", ms(result.predicted)},
          {"trial_steps", result.trial_steps}};
}

bool heals(const trainer& run) {
  return !run.options().healing.authority.empty();
}

/// What a run has been seen to do.
struct run_watches {
  last_step seen = 0;
  std::shared_ptr<rank_load> load;  // null in a job that does not heal
};

/// The part of `ranks` about a job that heals.
void add_members(json& answer, const job_members& members,
                 const run_watches& watches) {
  answer["epoch"] = members.epoch;
  // None is seen yet where another process led the job until now.
  answer["step"] = std::max(watches.seen.load(), members.copied.value_or(0));
  answer["copied"] = members.copied ? json(*members.copied) : json();
  answer["members"] = json::array();
  for (const auto& each : members.processes)
    answer["members"].push_back({{"pid", each.pid}, {"seconds", each.seconds}});
  answer["busy"] = json::array();
  for (const auto& each : watches.load->shares(members.hosting.size()))
    answer["busy"].push_back(each ? json(*each) : json());
}

/// Answers `troupe ranks`: `{"processes", "replicas", "ranks", "hosting"}`, the
/// last with the process of each rank, of the first replica's, then of the
/// second's. In a job that heals also `{"epoch", "authority", "step", "copied",
/// "members": [{"pid", "seconds"}, ...], "busy"}`: the last step, the newest
/// one of which each rank's state is in a second process, too, the job's
/// processes, and the share of the last steps in which each rank was busy.
json ranks(const trainer& run, const run_watches& watches) {
  const auto& options = run.options();
  const auto members = run.members();
  json answer{{"processes", options.job ? options.job->place().processes : 1},
              {"replicas", options.data_parallel},
              {"ranks", run.shared_plan()->ranks()},
              {"hosting", members.hosting}};
  if (heals(run)) {
    add_members(answer, members, watches);
    answer["authority"] = options.healing.authority;
  }
  return answer;
}

std::vector<std::int32_t> hosting_in(const trainer& run, const json& request) {
  if (request.contains("hosting"))
    return field<std::vector<std::int32_t>>(request, "hosting");
  if (!request.contains("drain"))
    return moved(run.hosting(), field<std::int32_t>(request, "rank"),
                 field<std::int32_t>(request, "process"));
  const auto& job = run.options().job;
  return drained(run.hosting(), field<std::int32_t>(request, "drain"),
                 job ? job->place().processes : 1);
}

/// Answers `troupe move` and `troupe drain`: `{"rank": R, "process": P}`,
/// `{"drain": P}` or `{"hosting": [P, ...]}` -> as `ranks`, from the next step
/// on; in a job that heals as `ranks` now, and `{"requested"}`, the hosting
/// that the next epoch is to have. Throws `error`.
json rehost(trainer& run, const run_watches& watches, const json& request) {
  const auto asks = [&](const char* name) { return request.contains(name); };
  const auto wants = int{asks("drain")} + int{asks("hosting")}
                     + int{asks("rank") || asks("process")};
  if (wants != 1)
    throw error(error_code::invalid_argument,
                "a request to move ranks has a rank and its new process, a "
                "process to drain, or a hosting");
  const auto wanted = hosting_in(run, request);
  auto before = ranks(run, watches);
  run.rehost(wanted);
  if (!heals(run))
    return ranks(run, watches);
  before["requested"] = wanted;
  return before;
}

monitor step_watch(std::shared_ptr<run_watches> watches) {
  monitor result;
  result.name = "endpoint";
  result.wants.warnings = false;
  result.see = [watches = std::move(watches)](const event& what) {
    if (const auto* step = std::get_if<step_event>(&what))
      watches->seen = step->source.step;
  };
  return result;
}

std::shared_ptr<run_watches> watch_steps(trainer& run) {
  auto watches = std::make_shared<run_watches>();
  run.attach(step_watch(watches));
  if (heals(run)) {
    watches->load = std::make_shared<rank_load>(run.shared_plan()->ranks());
    run.attach(load_monitor(watches->load));
  }
  return watches;
}

monitor make_for_client(const monitor_context& context,
                        const wanted_monitor& wanted) {
  auto of_client = context;
  of_client.sink = wanted.sink;
  of_client.print = wanted.print;
  of_client.folder = wanted.folder;
  if (wanted.spec.substr(0, wanted.spec.find(':')) == "budget")
    require_right(wanted.right, access_right::control,
                  "to limit what other monitors see");
  return make_monitor(wanted.spec, of_client);
}

}  // namespace

monitor_context context_of(trainer& run, sink_pointer sink) {
  monitor_context context;
  context.run_plan = run.shared_plan();
  context.sink = std::move(sink);
  context.parameters = run.parameter_count();
  context.lanes = context.run_plan->ranks() * run.options().data_parallel;
  context.observe_every = [&run](std::int64_t steps) {
    run.observe_every(steps);
  };
  return context;
}

bool can_replan(const trainer& run) {
  const auto& options = run.options();
  return !options.cuda_graphs && !options.execution.replay
         && run.plan().update.every == 0;
}

job_operations operations_of(trainer& run, std::int64_t steps,
                             const replanner* orders) {
  const auto seen = watch_steps(run);
  job_operations operations;
  operations.attach = [&run](monitor watcher) {
    return run.attach(std::move(watcher));
  };
  operations.detach = [&run](std::int64_t id) { run.detach(id); };
  operations.make = [context =
                       context_of(run, nullptr)](const wanted_monitor& wanted) {
    return make_for_client(context, wanted);
  };
  if (orders != nullptr)
    operations.replan = [&run, orders](const json& what) {
      return replan(*orders, *run.shared_plan(), what);
    };
  operations.ranks = [&run, seen] { return ranks(run, *seen); };
  operations.rehost = [&run, seen](const json& what) {
    return rehost(run, *seen, what);
  };
  operations.failure = [&run] { return run.health().failure; };
  operations.plan = [&run] { return to_text(*run.shared_plan()); };
  operations.info = [&run, seen, steps]() -> json {
    const auto plan = run.shared_plan();
    const auto health = run.health();
    json info{{"pid", ::getpid()},
              {"schedule", plan->schedule_name},
              {"ranks", plan->ranks()},
              {"stages", plan->stages()},
              {"microbatches", plan->microbatches},
              {"messages", plan->messages.size()},
              {"steps", steps},
              {"step", seen->seen.load()},
              {"in_step", health.in_step},
              {"failure", health.failure},
              {"interrupted", health.interrupted},
              {"ended", health.end ? json(health.end->reason) : json()}};
    if (heals(run))
      info["epoch"] = run.epoch();
    return info;
  };
  return operations;
}

}  // namespace troupe
