#include "troupe/cli/train/pipeline_flags.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

std::string schedule_names() {
  std::vector<std::string_view> names;
  for (const auto& row : builtin_schedules())
    names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void add_replica_flags(CLI::App& app, train_options& options) {
  auto& o = options.partition;
  app.option_defaults()->group(
    "Replicas: data parallelism and what its replicas share");
  add_value(app, "--data-parallel", o.data_parallel,
            "replicas D of the pipeline", whole_number(1, 1 << 16));
  add_choice(app, "--shard WHAT", o.shard,
             {{"replicate", {shard_mode::replicate}},
              {"gradients", {shard_mode::gradients}},
              {"all", {shard_mode::all}},
              {"hybrid", {shard_mode::all, true}}},
             "what to shard over replicas: nothing (replicate), gradients and "
             "optimizer state (gradients), parameters as well (all), or all "
             "within groups of replicas (hybrid)");
  add_value(app, "--shard-group", o.sharding.group,
            "replicas in a sharding group; 0: all", whole_number(0, 1 << 16));
  add_value(app, "--shard-multiple", o.sharding.multiple,
            "pad the parameters of a stage to a multiple of shards x this many "
            "elements; a multiple of 32",
            whole_number(1, largest_shard_multiple));
  add_value(app, "--shard-whole", o.sharding.most_whole,
            "most stages of a rank whose parameters are gathered at once; at "
            "least V: they stay gathered between forward and backward",
            whole_number(1, 1 << 16));
  add_value(
    app, "--divide-gradients HOW", o.division,
    "divisors of the replicas' gradients before and after the sum: PRE,POST "
    "(1,1: the sum), mean (1,D), or balanced (both near the square root of D)");
  add_choice(
    app, "--reduce-dtype", options.numerics.division.in_fp32,
    {{"fp32", true}, {"same", false}},
    "sum 16-bit gradients of replicas in fp32, or in their own dtype (same)");
}

void add_pipeline_flags(CLI::App& app, train_options& o) {
  app.option_defaults()->group(
    "Schedule: ranks, stages, microbatches, schedule, recompute");
  add_value(app, "--ranks", o.partition.shape.ranks, "pipeline ranks P",
            whole_number(1, 1 << 16));
  add_value(app, "--stages-per-rank", o.partition.shape.stages_per_rank,
            "stages V of a rank, by default 2 for schedules of several, if the "
            "layers suffice, else 1",
            whole_number(1, 1 << 16))
    ->default_str(description("1 or 2"));
  add_value(app, "--schedule", o.partition.schedule,
            "the order of ops (see `troupe schedules`): " + schedule_names()
              + ", search (the shortest found), or a FILE.csv")
    ->default_str(usual_schedules);
  o.partition.searching.add_to(app);
  o.partition.searching.add_per_stage(app, search_inputs::by_name);
  add_value(app, "--plan", o.partition.plan,
            "a compiled plan, as written by troupe plan --format plan, instead "
            "of --schedule")
    ->excludes("--schedule");
  add_value(app, "--microbatches", o.partition.shape.microbatches,
            "microbatches m of a step and replica", whole_number(1, 1 << 20));
  add_value(app, "--breadth", o.partition.shape.breadth,
            "microbatches of a group (depth_first, two_bw)",
            whole_number(0, 1 << 20));
  add_value(app, "--slices", o.partition.shape.slices,
            "slices K of a microbatch's sequence, by default 4 of seq_1f1b, if "
            "the layers run in slices, else 1",
            whole_number(1, INT16_MAX))
    ->default_str(description("1, or 4 of seq_1f1b"));
  app.add_option(
    "--split", o.partition.split,
    "layers on stages: blocks spread evenly (even), by parameters, "
    "measured, or by hand: 5,5; --model says what the layers are");
  app.add_flag("--recompute", o.numerics.recompute,
               "recompute forwards in the backward, to save memory");
  o.partition.offload.add_to(app);
  add_choice(app, "--weight-split HOW", o.numerics.backward_split,
             {{"automatic", weight_split::automatic},
              {"layers", weight_split::layers},
              {"graph", weight_split::graph}},
             "how I and W split a backward: by layers that support it "
             "(layers), or, for any module, by nodes of the autograd graph "
             "(graph)");
  add_value(app, "--threads", o.execution.intra_op_threads,
            "intra-op threads of a rank", whole_number(1, 1024));
  app.add_flag(
    "--plain", o.plain,
    "train the same model in a plain loop without actors, as a reference");
}

void add_order_flags(CLI::App& app, train_options& options) {
  auto& o = options.order;
  app.option_defaults()->group(
    "Order: which op of a rank starts next; replanning");
  add_choice(app, "--order ORDER", options.execution.order, lane_orders(),
             "strict: in the schedule's order; ready_first: weight backwards "
             "and updates that are ready overtake waiting ops of their rank; "
             "any_ready: any ready op does. Results do not change");
  add_value(app, "--order-log FILE", options.monitoring.order_log,
            "write the order in which each rank started its ops, one line per "
            "rank and step");
  add_value(
    app, "--replay FILE", o.replay,
    "start ops in the order of an --order-log with at least as many steps");
  add_value(app, "--replan-every N", o.replan_every,
            "every N steps search for a faster order of ops, using measured "
            "costs; 0: never. `troupe replan` does so for a live job",
            whole_number(0));
  add_value(app, "--slow ENTRIES", o.slow,
            "simulate a straggler: rank.1=1.5 makes the compute ops of rank 1 "
            "take 1.5 times as long");
  add_value(app, "--slow-from STEP", o.slow_from,
            "first step that --slow applies to", whole_number(1));
}

}  // namespace troupe::cli
