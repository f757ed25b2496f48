#include "troupe/actors/trainer_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/actors/monitoring/warn_of.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/schedules/op.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

/// Legal schedules that stages made of LibTorch modules can't run yet.
void require_runnable(const schedule& order) {
  if (order.lanes.empty())
    throw error(
      error_code::invalid_argument,
      "the options have no schedule; give them one, as "
      "make_schedule(\"1f1b\", {.ranks = 2, .microbatches = 8}) makes");
  const auto name = order.name.empty() ? "without a name" : order.name;
  if (!is_training(order))
    fail(error_code::invalid_argument,
         "schedule {} has no backwards, so nothing would be trained", name);
  for (std::size_t rank = 0; rank < order.lanes.size(); ++rank)
    if (order.lanes[rank].empty())
      fail(error_code::invalid_argument,
           "schedule {} gives rank {} no op; give it a stage, or number the "
           "ranks without it",
           name, rank);
  if (const auto late = first_out_of_order(order))
    fail(error_code::invalid_argument,
         "schedule {} runs the microbatches of a stage out of order ({} comes "
         "after a later one), so that its gradients would not be the plain "
         "loop's; let them ascend within each stage and kind of op, B and W "
         "being one, and slices descend in backwards (PyTorch's LoopedBFS does "
         "not; breadth_first is the same schedule in ascending order)",
         name, to_text(*late, order.slices > 1));
}

void require_legal(const time_limits& limits) {
  for (const auto& [name, seconds] : {std::pair("stall", limits.stall),
                                      {"finish", limits.finish},
                                      {"leave", limits.leave}})
    if (!(seconds >= 0 && seconds <= 1e9))
      fail(error_code::invalid_argument,
           "limits.{} is {} seconds; use 0 or more, and at most 10^9", name,
           seconds);
}

void require_legal(const loading_options& loading) {
  if (loading.prefetch < 0)
    fail(error_code::invalid_argument,
         "loading.prefetch is {} microbatches; use 0 (none ahead) or more",
         loading.prefetch);
  if (!(loading.slow_seconds >= 0))
    fail(error_code::invalid_argument,
         "loading.slow_seconds is {}; use 0 or more", loading.slow_seconds);
}

void require_legal(const execution_options& execution, std::int64_t ranks) {
  require_legal_threads(execution.intra_op_threads);
  require_legal(execution.limits);
  require_legal(execution.loading);
  for (const auto factor : execution.slow)
    if (!(factor >= 1 && factor <= 1000))
      fail(error_code::invalid_argument,
           "execution.slow has the factor {}; use factors from 1 to 1000",
           factor);
  if (std::ssize(execution.slow) > ranks)
    fail(error_code::invalid_argument,
         "execution.slow has factors of {} ranks, and the schedule has {}",
         execution.slow.size(), ranks);
}

std::int64_t count_of(const plan& in, plan_op_kind kind) {
  return std::ranges::count(in.ops, kind, &plan_op::kind);
}

/// Whether a plan that was made elsewhere does what the options ask for.
void require_matching(const plan& own, const trainer_options& options) {
  const auto refuse = [&](const std::string& why) {
    fail(error_code::invalid_argument, "the plan of {}: {}", own.schedule_name,
         why);
  };
  const auto copies = own.placement.copies();
  const auto stages = own.stages() * copies * updates_of(own);
  if (count_of(own, plan_op_kind::gather) > 0
      && options.sharding.mode != shard_mode::all)
    refuse(
      "it gathers parameters (UNSHARD), but this run does not shard them "
      "(`--shard all`)");
  if (count_of(own, plan_op_kind::update) != stages
      || count_of(own, plan_op_kind::gradient_norm) != stages)
    refuse("each stage needs a NORM and an UPDATE to be trained");
  const auto proof = verify(own, {.kind = transport_kind::credited});
  if (!proof.progress)
    throw error(
      error_code::deadlock,
      fmt::format("the plan of {}: {}", own.schedule_name, proof.text()));
  const auto reduces = count_of(own, plan_op_kind::reduce);
  if (options.data_parallel == 1 && copies > 1 && reduces != stages)
    refuse(
      "each copy of a stage needs a REDUCE_GRAD, which adds their gradients");
  if (options.data_parallel > 1 && reduces != stages)
    refuse(
      fmt::format("data_parallel is {}, so each stage needs a REDUCE_GRAD; "
                  "compile the plan with that many replicas",
                  options.data_parallel));
  if (options.data_parallel == 1 && copies == 1 && reduces > 0)
    refuse("it reduces gradients (REDUCE_GRAD), and data_parallel is 1");
  const bool needs_norm = options.needs_norm();
  if (needs_norm != own.global_norm)
    refuse(needs_norm
             ? "clipping and a dynamic loss scale need the norm of "
               "all stages; write `global_norm 1` into it, as troupe "
               "plan --global-norm does"
             : "its updates wait for the norm of all stages, which "
               "this run does not need; write `global_norm 0` into it");
}

/// A recording is of one device, by the process that has it.
void require_recordable(const trainer_options& options) {
  if (options.devices.empty())
    throw error(error_code::invalid_argument,
                "cuda_graphs launches steps on a GPU, and this run has none; "
                "give it one (--device cuda:0), or turn cuda_graphs off");
  if (options.job && options.job->place().processes > 1)
    fail(error_code::invalid_argument,
         "cuda_graphs records steps of one process, and the job has {}; run "
         "all ranks in one process, or turn cuda_graphs off",
         options.job->place().processes);
  if (options.devices.size() > 1)
    fail(error_code::invalid_argument,
         "cuda_graphs records steps of one device, and the run has {}; name "
         "one (--device cuda:0), or turn cuda_graphs off",
         options.devices.size());
}

void require_shardable(const trainer_options& options) {
  require_legal(options.sharding, options.data_parallel);
  if (!options.sharding.shards())
    return;
  if (options.cuda_graphs)
    throw error(error_code::invalid_argument,
                "cuda_graphs records gradients of whole stages; don't shard, "
                "or turn cuda_graphs off");
  if (options.schedule.update.every > 0)
    fail(error_code::invalid_argument,
         "schedule {} updates within a step, and keeps versions of whole "
         "parameters; don't shard, or use another schedule",
         options.schedule.name);
  if (!options.devices.empty() && options.job && !options.device_links
      && options.job->place().processes > 1)
    throw error(error_code::invalid_argument,
                "shards of several processes go from device to device; keep "
                "device_links on, or use the CPU");
}

void require_offloadable(const trainer_options& options) {
  require_legal(options.offload, options.schedule.stages());
  const bool copies =
    offloads(options.offload) || (options.plan && offloads(*options.plan));
  if (copies && options.cuda_graphs)
    throw error(error_code::invalid_argument,
                "cuda_graphs records steps whose tensors stay where they are; "
                "don't offload activations, or turn cuda_graphs off");
}

/// Each layer belongs to one stage, in the model's order.
void require_cover(const stage_split& ranges, std::int32_t layers) {
  std::int32_t next = 0;
  for (const auto& range : ranges) {
    if (range.first != next || range.last <= range.first)
      fail(error_code::invalid_argument,
           "the split gives a stage layers {} to {}, after {} layers of the "
           "stages before; give each stage one layer or more, in order",
           range.first, range.last - 1, next);
    next = range.last;
  }
  if (next != layers)
    fail(error_code::invalid_argument,
         "the split ends at layer {}, and the model has {} layers", next,
         layers);
}

}  // namespace

stage_split split_for(const model& layers, const trainer_options& options) {
  const auto stages = options.schedule.stages();
  if (options.split.empty())
    return split(layers, stages);
  if (static_cast<std::int32_t>(options.split.size()) != stages)
    fail(error_code::invalid_argument,
         "the split has {} stages, the schedule {}", options.split.size(),
         stages);
  require_cover(options.split, static_cast<std::int32_t>(layers.size()));
  return options.split;
}

void warn_of_unknown_names(const monitor& watcher,
                           const std::vector<std::string>& names) {
  if (watcher.wants.tensors == tensor_kind::none)
    return;
  constexpr std::size_t most_shown = 8;
  std::vector<std::string> unknown;
  std::size_t more = 0;
  for (const auto& glob : globs_of(watcher.wants.names))
    if (std::ranges::none_of(names, [&](const std::string& name) {
          return matches_glob(glob, name);
        }))
      unknown.size() < most_shown
        ? unknown.push_back(fmt::format("'{}'", printable(glob)))
        : void(++more);
  if (!unknown.empty())
    warn_of(watcher, ": no module or parameter is named {}{}",
            fmt::join(unknown, ", "),
            more > 0 ? fmt::format(" and {} further names", more) : "");
}

void require_source(const source_pointer& source) {
  if (!source)
    throw error(error_code::invalid_argument,
                "the data source is null; give the trainer one, as "
                "text_batches or make_source does");
}

void require_monitor(const monitor& watcher) {
  require_legal(watcher.wants);
  if (!watcher.see)
    fail(error_code::invalid_argument,
         "monitor '{}' has no `see` function, so it would receive no events",
         watcher.name);
  const auto& limits = watcher.limits;
  if (limits.waiting_events < 1 || limits.held_bytes < 1
      || !(limits.stuck_seconds > 0))
    fail(error_code::invalid_argument,
         "monitor '{}' is limited to {} waiting events, {} bytes and {} "
         "seconds; use more than 0 of each",
         watcher.name, limits.waiting_events, limits.held_bytes,
         limits.stuck_seconds);
}

void require_at_least(std::int64_t least, std::int64_t count,
                      const char* what) {
  if (count < least)
    fail(error_code::invalid_argument,
         "{} {} make no sense here; use {} or more", count, what, least);
}

void require_replannable(const schedule& order, const trainer_options& options,
                         const plan& running) {
  const auto& now = options.schedule;
  const auto refuse = [&](const std::string& why) {
    fail(error_code::invalid_argument, "can't switch from {1} to {0}: {2}",
         order.name, running.schedule_name, why);
  };
  if (options.job && !options.job->place().leads())
    refuse("in a job, only the leading process may request another plan");
  if (options.cuda_graphs)
    refuse("steps are recorded as graphs (cuda_graphs)");
  if (options.execution.replay)
    refuse("the run replays the op orders of another run");
  if (options.plan && offloads(*options.plan) && order != now)
    refuse(
      "the plan that was given has its own OFFLOAD and RELOAD, which another "
      "order would lose; use the option `offload` instead (--offload)");
  if (order.placement != now.placement)
    refuse("its stages are on other ranks");
  if (order.microbatches != now.microbatches || order.slices != now.slices)
    refuse(fmt::format("it has {} microbatches and {} slices, not {} and {}",
                       order.microbatches, order.slices, now.microbatches,
                       now.slices));
  if (copies_taken(order) != copies_taken(now))
    refuse(
      "a microbatch uses another copy of the stages, so gradients would be "
      "summed in another order");
  if (now.update.every > 0 || order.update.every > 0)
    refuse("updates within a step read other parameters in another order");
  require_runnable(order);
}

namespace {

void require_legal(const healing_options& options) {
  if (options.copy_every < 1)
    fail(error_code::invalid_argument,
         "healing.copy_every is {} steps; use 1 or more", options.copy_every);
}

}  // namespace

void require_legal(const trainer_options& options) {
  require_legal(options.numerics);
  require_legal(options.healing);
  require_shardable(options);
  require_offloadable(options);
  if (options.data_parallel < 1)
    fail(error_code::invalid_argument,
         "data_parallel is {}; use 1 or more replicas", options.data_parallel);
  require_legal(options.execution, options.schedule.placement.ranks);
  if (std::ranges::count(options.devices, nullptr) > 0)
    throw error(error_code::invalid_argument,
                "one of the devices is null; omit it");
  const bool reduces =
    options.data_parallel > 1 || options.schedule.placement.copies() > 1;
  if (!options.devices.empty() && options.job && reduces
      && !options.device_links)
    throw error(error_code::invalid_argument,
                "the gradients of replicas, and of copies of a stage, in "
                "several processes go from device to device; keep device_links "
                "on, or use the CPU");
  if (options.cuda_graphs)
    require_recordable(options);
  if (options.schedule.update.every > 0
      && (options.numerics.needs_norm() || options.cuda_graphs))
    fail(error_code::invalid_argument,
         "schedule {} updates each stage by itself within a step; clipping, a "
         "dynamic loss scale and cuda_graphs need all gradients of a step",
         options.schedule.name);
  require_runnable(options.schedule);
  if (options.plan)
    require_matching(*options.plan, options);
}

}  // namespace troupe
