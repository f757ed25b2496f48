#include "troupe/cli/train/train_setup.hpp"

#include <ATen/ops/zeros.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/train/optimisation_flags.hpp"
#include "troupe/cli/train/train_memory.hpp"
#include "troupe/cli/train/train_output.hpp"
#include "troupe/cli/train/usual_sizes.hpp"
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::cli {

namespace {

std::vector<std::int32_t> parse_counts(const std::string& text) {
  std::vector<std::int32_t> counts;
  for (const auto part : split_words(text, ',')) {
    const auto count = parse_number<std::int32_t>(part);
    if (!count)
      fail(
        error_code::invalid_argument,
        "--split '{}': '{}' is not a number of layers; give even, parameters, "
        "measured, or a list such as 5,5 (--model lists the layers)",
        text, part);
    counts.push_back(*count);
  }
  return counts;
}

stage_split split_for(const train_options& o, const built_model& model,
                      std::int32_t stages) {
  const auto& how = o.partition.split;
  const auto& layers = model.layers;
  const auto count = static_cast<std::int32_t>(layers.size());
  if (how == "even")
    return split_evenly(count, model.blocks, stages);
  if (how == "parameters")
    return split(layers, stages);
  if (how == "measured" && read_environment().processes > 1)
    fail(
      error_code::invalid_argument,
      "--split measured requires one process, because each process would "
      "measure different times; run `troupe train --dry-run --split measured` "
      "once, and give all processes its split as a list, such as 5,5");
  if (how == "measured")
    return split_by_cost(
      measured_costs(
        layers,
        {at::zeros({o.data.batches.rows, o.data.batches.length}, at::kLong)}),
      stages);
  auto parts = split_by_hand(count, parse_counts(how));
  if (static_cast<std::int32_t>(parts.size()) != stages)
    fail(error_code::invalid_argument,
         "--split gives {} stages, the schedule has {}", parts.size(), stages);
  return parts;
}

sharding_options sharding_of(const train_options& o) {
  auto sharding = o.partition.sharding;
  if (o.partition.shard.within_groups && sharding.group == 0)
    throw error(error_code::invalid_argument,
                "--shard hybrid shards within groups of replicas; give their "
                "size by --shard-group");
  sharding.mode = o.partition.shard.mode;
  return sharding;
}

/// Whether a folder has a tokenizer of any kind that transformers has.
bool has_tokenizer(const std::string& folder) {
  return std::ranges::any_of(
    std::to_array({"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                   "vocab.json", "tekken.json"}),
    [&](const char* name) {
      std::error_code trouble;
      return std::filesystem::exists(std::filesystem::path(folder) / name,
                                     trouble);
    });
}

void warn_of_bytes(const train_options& o) {
  if (!o.model.is_folder() || o.data.format || !has_tokenizer(o.model.name))
    return;
  for (const auto& path : o.data.text)
    if (guess_token_format(path) == token_format::bytes)
      spdlog::warn(
        "{} is read as bytes, and not by the model's tokenizer; convert it "
        "with scripts/tokenize, or give --text-format bytes",
        path);
}

/// Warns if the rotary frequencies depend on the length of the row, which
/// several documents share.
void warn_of_shared_length(const train_options& o, const built_model& model) {
  if (!model.folder || o.data.document_end < 0)
    return;
  const auto steady = model.folder->options().rotary.steady_length();
  if (steady && o.data.batches.length > *steady)
    spdlog::warn(
      "--document-end: the model's rope scaling depends on the length of a "
      "row, so that a document beside others is not trained as it would be "
      "alone; --seq {} or less avoids that",
      *steady);
}

std::int64_t blocks_of(const built_model& model) {
  return model.blocks.last - model.blocks.first;
}

void require_enough_layers(const partition_options& o,
                           const built_model& model) {
  const auto stages = std::int64_t{o.shape.ranks} * o.shape.stages_per_rank;
  const auto blocks = blocks_of(model);
  const auto others = most_stages(o, model) - blocks;
  if (sizes_file(o).empty() && stages > blocks + others)
    fail(error_code::invalid_argument,
         "{}{} can't be cut into {} ({} x {} per rank); use at most {}, or a "
         "model of more blocks",
         counted(blocks, "block"),
         others > 0 ? " and " + counted(others, "other layer") : "",
         counted(stages, "stage"), counted(o.shape.ranks, "rank"),
         counted(o.shape.stages_per_rank, "stage"),
         counted(blocks + others, "stage"));
}

/// Throws for more ranks than a process may have, as each is a thread.
void require_threads(std::int32_t ranks, std::int32_t replicas) {
  constexpr std::int64_t most = 1024;
  const auto processes = read_environment().processes;
  if (std::int64_t{ranks} * replicas > most * processes)
    fail(error_code::invalid_argument,
         "{} ranks x {} replicas in {} processes are more than {} threads "
         "each; use fewer --ranks or a smaller --data-parallel, or more "
         "processes",
         ranks, replicas, processes, most);
}

/// Throws if --replan-every is given to a run whose order of ops is fixed.
void require_searchable(const train_options& o, const trainer_options& run) {
  if (o.order.replan_every > 0
      && (run.schedule.update.every > 0 || o.devices.cuda_graphs
          || !o.order.replay.empty() || (run.plan && offloads(*run.plan))))
    fail(error_code::invalid_argument,
         "--replan-every {}: replanning is not supported for schedules that "
         "update within a step, for a --plan with OFFLOAD ops, nor with "
         "--cuda-graphs or --replay; omit it",
         o.order.replan_every);
}

void set_order(execution_options& execution, const order_options& o,
               std::int32_t ranks) {
  if (!o.replay.empty())
    execution.replay =
      std::make_shared<const order_log>(load_order_log(o.replay));
  if (!o.slow.empty())
    execution.slow = load_entries(o.slow, "slow ranks", parse_slow_ranks);
  for (const auto factor : execution.slow)
    if (!(factor >= 1 && factor <= 1000))
      fail(error_code::invalid_argument,
           "--slow {}: {} is not a factor in 1..1000", o.slow, factor);
  if (std::ssize(execution.slow) > ranks)
    fail(error_code::invalid_argument,
         "--slow {}: rank {} is not one of the {} ranks", o.slow,
         std::ssize(execution.slow) - 1, ranks);
  execution.slow_from = o.slow_from;
}

}  // namespace

std::string counted(std::int64_t count, const char* what, const char* more) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : more);
}

std::string sizes_file(const partition_options& o) {
  return !o.plan.empty() ? o.plan : names_file(o.schedule) ? o.schedule : "";
}

trainer_options pipeline_of(const train_options& o, const built_model& model,
                            model_source source) {
  trainer_options run;
  const auto& parts = o.partition;
  require_enough_layers(parts, model);
  if (sizes_file(parts).empty())
    require_threads(parts.shape.ranks, parts.data_parallel);
  require_memory(o, model, source);
  if (!parts.plan.empty()) {
    run.plan = std::make_shared<const plan>(plan_from_file(parts.plan));
    run.schedule = schedule_of(*run.plan);
  } else
    run.schedule = named_schedule(parts.schedule, parts.shape, parts.searching,
                                  parts.data_parallel);
  require_threads(run.schedule.ranks(), parts.data_parallel);
  if (run.schedule.slices > o.data.batches.length)
    fail(error_code::invalid_argument,
         "{} slices of a microbatch: its rows have {} tokens (--seq); use at "
         "most one slice for each",
         run.schedule.slices, o.data.batches.length);
  run.split = split_for(o, model, run.schedule.stages());
  run.data_parallel = parts.data_parallel;
  run.hosting = o.processes.hosting;
  run.offload = parts.offload.options();
  run.execution = o.execution;
  run.overlap = overlap_of(o.devices);
  return run;
}

namespace {

/// Reduces --ranks of a plain loop, which has no ranks, to what the model
/// allows.
void fit_plain_ranks(partition_options& o, const built_model& model) {
  const auto most = most_stages(o, model) / o.shape.stages_per_rank;
  o.shape.ranks =
    static_cast<std::int32_t>(std::clamp<std::int64_t>(most, 1, o.shape.ranks));
}

/// Sets --steps by --epochs; the last step may begin another epoch.
void set_steps(train_options& o, const train_setup& setup) {
  if (o.epochs == 0)
    return;
  if (setup.epoch_rows == 0)
    throw error(error_code::invalid_argument,
                "--epochs: the texts of a --mix have epochs of their own; give "
                "--steps");
  const auto rows = std::int64_t{setup.trainer.schedule.microbatches}
                    * setup.trainer.data_parallel * o.data.batches.rows;
  o.steps = (o.epochs * setup.epoch_rows + rows - 1) / rows;
  spdlog::info("--epochs {}: {} steps of {} rows, of {} rows an epoch",
               o.epochs, o.steps, rows, setup.epoch_rows);
}

}  // namespace

train_setup make_setup(train_options& o) {
  train_setup setup;
  const auto& parts = o.partition;
  setup.model = build_model(o.model, o.data.batches,
                            o.numerics.dtypes.parameters.value_or(at::kFloat));
  setup.model_texts = model_texts(o.model, o.data.batches, setup.model);
  set_usual_sizes(o, setup.model);
  if (!o.output.save_model.empty() && !setup.model.folder)
    throw error(error_code::invalid_argument,
                "--save-model needs a --model that is a folder of Hugging "
                "Face's transformers; use --save-parameters");
  if (!o.output.save_adapter.empty() && o.model.choices.lora.rank == 0)
    throw error(error_code::invalid_argument,
                "--save-adapter needs adapters; give their --lora-rank");
  if (!o.output.save_adapter.empty() && o.model.from_scratch)
    throw error(error_code::invalid_argument,
                "--save-adapter: with --from-scratch, no folder would hold the "
                "weights that the adapter belongs to; save the fresh model by "
                "--steps 0 --save-model first, and adapt that");
  warn_of_shared_length(o, setup.model);
  warn_of_long_sample(o);
  if (o.plain)
    fit_plain_ranks(o.partition, setup.model);
  auto& run = setup.trainer = pipeline_of(
    o, setup.model,
    setup.model.folder ? model_source::folder : model_source::flags);
  warn_of_breadth(!parts.plan.empty()      ? parts.plan
                  : parts.schedule.empty() ? setup.trainer.schedule.name
                                           : parts.schedule,
                  parts.shape.breadth);
  if (parts.offload.is_set() && o.devices.device == "cpu")
    spdlog::warn(
      "--offload-activations saves no memory on a CPU, where host and device "
      "memory are the same; use it with --device cuda");
  warn_of_bytes(o);
  run.sharding = sharding_of(o);
  add_data(setup, o.data);
  set_steps(o, setup);
  run.numerics = numerics_for(o, setup.model, run.schedule);
  set_order(run.execution, o.order, run.schedule.ranks());
  require_searchable(o, run);
  run.cuda_graphs = o.devices.cuda_graphs;
  if (!run.overlap.data)  // loading ahead counts as overlap, too
    run.execution.loading.prefetch = 0;
  // A log's order may be one in which updates don't wait.
  run.execution.holds_updates = !run.execution.replay && watches(o.monitoring);
  return setup;
}

}  // namespace troupe::cli
