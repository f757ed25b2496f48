#include "troupe/actors/run_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/actors/trainer_checks.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/compile/shard.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/forward_part.hpp"
#include "troupe/schedules/generation.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

plan_pointer compile_for(const schedule& order, const trainer_options& options,
                         const stage_graph& graph,
                         const std::vector<std::int32_t>& tied) {
  compile_options compiling;
  compiling.tied = tied;
  compiling.graph = graph;
  compiling.data_parallel = options.data_parallel;
  compiling.global_norm = options.needs_norm();
  return std::make_shared<const plan>(compile(order, compiling));
}

/// A plan that gathers by itself stays as it is.
plan_pointer sharded_for(plan_pointer whole, const trainer_options& options) {
  const bool gathers =
    std::ranges::count(whole->ops, plan_op_kind::gather, &plan_op::kind) > 0;
  if (!options.sharding.shards() || gathers)
    return whole;
  return std::make_shared<const plan>(
    options.sharding.mode == shard_mode::all
      ? sharded(*whole, options.sharding.most_whole)
      : sharded_updates(*whole));
}

/// A plan that offloads by itself stays as it is.
plan_pointer offloaded_for(plan_pointer whole, const trainer_options& options) {
  if (!offloads(options.offload) || offloads(*whole))
    return whole;
  return std::make_shared<const plan>(offloaded(*whole, options.offload));
}

/// Each copy of a stage that holds tied parameters sums their gradients, once
/// for each update, and no other does.
void require_tied_sums(const plan& training,
                       const std::vector<std::int32_t>& tied) {
  const auto each = training.placement.copies() * updates_of(training);
  for (std::int32_t s = 0; s < training.stages(); ++s) {
    const auto sums =
      std::ranges::count_if(training.ops, [&](const plan_op& op) {
        return op.kind == plan_op_kind::sum_tied && op.stage == s;
      });
    const bool needs = std::ranges::binary_search(tied, s);
    if (sums != (needs ? each : 0))
      fail(error_code::invalid_argument, "plan {}: stage {} {}",
           training.schedule_name, s,
           needs ? fmt::format("holds tied parameters, and needs a SUM_TIED in "
                               "each copy and update; it has {} of {}",
                               sums, each)
                 : "sums tied gradients (SUM_TIED), and the model ties no "
                   "parameter of it to one of another layer");
  }
}

/// The forwards of the schedule.
plan_pointer evaluation_plan(const trainer_options& options,
                             const stage_graph& graph) {
  auto forwards =
    compile_for(forward_part(options.schedule), options, graph, {});
  // Parameters are whole between steps where only gradients are sharded.
  return options.sharding.mode == shard_mode::all
           ? sharded_for(std::move(forwards), options)
           : forwards;
}

/// The leading process's plan, on all processes of a job, each of which calls
/// it; null on all if the leading process has none. Throws `transport`.
plan_pointer share_plan(mesh& job, plan_pointer of_leader) {
  const auto own = of_leader ? to_text(*of_leader) : std::string{};
  const auto text = job.share({frame_type::mail, own, {}}).head;
  if (of_leader || text.empty())
    return of_leader;
  return std::make_shared<const plan>(
    plan_from_text(text, "the leading process's plan"));
}

}  // namespace

plan_pointer training_plan(const trainer_options& options,
                           const stage_graph& graph,
                           const std::vector<std::int32_t>& tied) {
  if (options.plan && options.plan->graph != graph)
    fail(
      error_code::invalid_argument,
      "plan {}: its stages' edges are '{}', those of the model '{}'; compile "
      "it for this model, or give its `edges`",
      options.plan->schedule_name, to_text(options.plan->graph),
      to_text(graph));
  if (options.plan)
    require_tied_sums(*options.plan, tied);
  auto training = options.plan
                    ? options.plan
                    : compile_for(options.schedule, options, graph, tied);
  training = sharded_for(offloaded_for(std::move(training), options), options);
  if (options.overlap.reduce)
    return training;
  return std::make_shared<const plan>(without_overlapped_reductions(*training));
}

plan_pointer generation_plans::find(std::int32_t microbatches,
                                    std::int32_t positions) {
  const auto place = std::ranges::find_if(kept_, [&](const auto& each) {
    return each->microbatches == microbatches && each->slices == positions;
  });
  if (place == kept_.end())
    return nullptr;
  std::rotate(kept_.begin(), place, place + 1);
  return kept_.front();
}

void generation_plans::keep(plan_pointer newest) {
  if (kept_.size() == most)
    kept_.pop_back();
  kept_.insert(kept_.begin(), std::move(newest));
}

run_plans::run_plans(const trainer_setup& setup)
  : setup_(setup),
    training_(training_plan(setup.options, setup.graph,
                            joined(holding_stages(setup.ties, setup.ranges)))),
    evaluation_(evaluation_plan(setup.options, setup.graph)),
    of_job_(std::make_shared<job_plans>(std::vector{training_, evaluation_})) {}

plan_pointer run_plans::training() const {
  const std::scoped_lock lock(mutex_);
  return training_;
}

/// Plans are kept, as ranks know them by their address.
plan_pointer run_plans::generation(std::int32_t microbatches,
                                   std::int32_t positions) {
  if (auto kept = generation_.find(microbatches, positions))
    return kept;
  const auto& options = setup_.options;
  auto newest =
    compile_for(generation_schedule(setup_.places(), microbatches, positions),
                options, setup_.graph, {});
  generation_.keep(newest);
  if (auto* const job = setup_.job()) {
    of_job_->add(*newest);
    job->barrier();
  }
  return newest;
}

void run_plans::replan(const schedule& order) {
  const auto& options = setup_.options;
  const auto now = training();  // steps go on while this compiles
  require_replannable(order, options, *now);
  auto wanted = options;
  if (order != options.schedule)  // else the plan of the options, as it is
    wanted.plan = nullptr;
  wanted.schedule = order;
  auto next = training_plan(wanted, now->graph, tied_stages(*now));
  const std::scoped_lock lock(mutex_);
  next_ = std::move(next);
}

bool run_plans::forget_announcement() {
  announced_ = false;
  const std::scoped_lock lock(mutex_);
  return next_ != nullptr;
}

bool run_plans::take_up(std::int64_t step) {
  auto* const job = setup_.job();
  const bool announced = std::exchange(announced_, false);
  if (job && !announced)
    return false;
  std::unique_lock lock(mutex_);
  auto taken = std::exchange(next_, nullptr);
  lock.unlock();
  if (job)
    taken = share_plan(*job, std::move(taken));
  if (!taken)  // a wish that came in between has been fulfilled with the last
    return announced;
  if (job) {
    of_job_->add(*taken);
    job->gather({frame_type::mail, {}, {}});
  }
  lock.lock();
  training_ = std::move(taken);
  ++switches_;
  if (setup_.layout.process == 0)
    log()->info("step {} switches to {}", step, training_->schedule_name);
  return announced;
}

void run_plans::go_on_with(const std::string& text, std::int64_t switches) {
  auto plan = std::make_shared<const troupe::plan>(
    plan_from_text(text, "the plan of the job's other processes"));
  of_job_->add(*plan);
  const std::scoped_lock lock(mutex_);
  training_ = std::move(plan);
  switches_ = switches;
}

}  // namespace troupe
