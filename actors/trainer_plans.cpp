#include "troupe/actors/trainer_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/error.hpp"
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
  compiling.global_norm = options.numerics.needs_norm();
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
plan_pointer offloaded_for(plan_pointer made, const trainer_options& options) {
  if (!offloads(options.offload) || offloads(*made))
    return made;
  return std::make_shared<const plan>(offloaded(*made, options.offload));
}

/// Each copy of a stage that holds tied parameters sums their gradients, once
/// for each update, and no other does.
void require_tied_sums(const plan& given,
                       const std::vector<std::int32_t>& tied) {
  const auto each = given.placement.copies() * updates_of(given);
  for (std::int32_t s = 0; s < given.stages(); ++s) {
    const auto sums = std::ranges::count_if(given.ops, [&](const plan_op& op) {
      return op.kind == plan_op_kind::sum_tied && op.stage == s;
    });
    const bool needs = std::ranges::binary_search(tied, s);
    if (sums != (needs ? each : 0))
      fail(error_code::invalid_argument, "plan {}: stage {} {}",
           given.schedule_name, s,
           needs ? fmt::format("holds tied parameters, and needs a SUM_TIED in "
                               "each copy and update; it has {} of {}",
                               sums, each)
                 : "sums tied gradients (SUM_TIED), and the model ties no "
                   "parameter of it to one of another layer");
  }
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
  auto made = options.plan
                ? options.plan
                : compile_for(options.schedule, options, graph, tied);
  made = sharded_for(offloaded_for(std::move(made), options), options);
  if (options.overlap.reduce)
    return made;
  return std::make_shared<const plan>(without_overlapped_reductions(*made));
}

plan_pointer share_plan(mesh& job, plan_pointer of_leader) {
  const auto text = of_leader ? to_text(*of_leader) : std::string{};
  const auto given = job.share({frame_type::mail, text, {}}).head;
  if (of_leader || given.empty())
    return of_leader;
  return std::make_shared<const plan>(
    plan_from_text(given, "the leading process's plan"));
}

plan_pointer evaluation_plan(const trainer_options& options,
                             const stage_graph& graph) {
  auto made = compile_for(forward_part(options.schedule), options, graph, {});
  // Parameters are whole between steps where only gradients are sharded.
  return options.sharding.mode == shard_mode::all
           ? sharded_for(std::move(made), options)
           : made;
}

plan_pointer compile_generation(const trainer_options& options,
                                const stage_graph& graph,
                                std::int32_t microbatches,
                                std::int32_t positions) {
  return compile_for(
    generation_schedule(options.schedule.placement, microbatches, positions),
    options, graph, {});
}

plan_pointer generation_plans::find(std::int32_t microbatches,
                                    std::int32_t positions) {
  const auto found = std::ranges::find_if(kept_, [&](const auto& each) {
    return each->microbatches == microbatches && each->slices == positions;
  });
  if (found == kept_.end())
    return nullptr;
  std::rotate(kept_.begin(), found, found + 1);
  return kept_.front();
}

void generation_plans::keep(plan_pointer made) {
  if (kept_.size() == most)
    kept_.pop_back();
  kept_.insert(kept_.begin(), std::move(made));
}

}  // namespace troupe
