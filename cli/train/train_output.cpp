#include "troupe/cli/train/train_output.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "troupe/actors/copy_footprint.hpp"
#include "troupe/actors/run_plans.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/plan/standard_output.hpp"
#include "troupe/cli/train/run_summary.hpp"
#include "troupe/cli/train/train_healing.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe::cli {

void save(const std::string& path, const parameter_list& parameters,
          const train_setup& setup) {
  if (!path.empty() && !parameters.empty())
    write_safetensors(path, parameters, model_metadata(setup.model_texts));
}

void save_model(const train_options& options, const parameter_list& parameters,
                const train_setup& setup) {
  const auto& o = options.output;
  if (!o.save_model.empty() && !parameters.empty())
    setup.model.folder->save(o.save_model, parameters,
                             options.model.choices.lora, o.save_dtype,
                             static_cast<std::int64_t>(o.shard_bytes));
  if (!o.save_adapter.empty() && !parameters.empty())
    setup.model.folder->save_adapter(o.save_adapter, parameters,
                                     options.model.choices.lora);
}

bool logs_tensors(const std::shared_ptr<mesh>& job) {
  const bool own = spdlog::should_log(spdlog::level::debug);
  return job ? job->share({frame_type::mail, own ? "1" : ""}).head == "1" : own;
}

void log_tensors(std::int64_t step, const parameter_list& parameters) {
  if (!spdlog::should_log(spdlog::level::debug))
    return;
  spdlog::debug("step {}: memory {} MiB", step, resident_bytes() >> 20);
  for (const auto& [name, value] : parameters) {
    const auto& gradient = value.grad();
    spdlog::debug("step {}: {} norm {:.6g} gradient norm {:.6g}", step, name,
                  value.norm().item<double>(),
                  gradient.defined() ? gradient.norm().item<double>() : 0.0);
  }
}

progress_options progress_to(const train_options& options) {
  return {.steps = options.steps,
          .terminal = shows_on_terminal(),
          .reader_left = tell_that_reader_left};
}

bool validates_at(const train_options& options, const train_setup& setup,
                  std::int64_t step) {
  const bool due =
    step == options.steps
    || (options.data.eval_every > 0 && step % options.data.eval_every == 0);
  return setup.validation && due;
}

namespace {

/// Whether a sample is printed as text instead of a list of ids.
bool tokens_are_text(const data_options& options) {
  return options.batches.vocabulary <= 256
         && std::ranges::all_of(options.text, [&](const std::string& path) {
              return (options.format ? *options.format
                                     : guess_token_format(path))
                     == token_format::bytes;
            });
}

}  // namespace

std::optional<sample_request> sample_of(const train_options& options) {
  const auto& output = options.output;
  if (output.sample == 0)
    return std::nullopt;
  sample_request sample;
  sample.tokens = {options.data.batches.vocabulary,
                   tokens_are_text(options.data)};
  sample.options.length = options.data.batches.length;
  auto& request = sample.request;
  const bool is_usual = output.prompt == output_options{}.prompt;
  if (sample.tokens.bytes || !is_usual)
    request.ids = sample.tokens.ids_of(output.prompt, "--prompt");
  if (request.ids.empty())
    request.ids = {sample.tokens.bytes ? '\n' : 0};
  request.tokens = output.sample;
  request.sampling = output.sampling;
  request.sampling.seed = options.data.batches.seed;
  require_legal({request}, sample.options);
  return sample;
}

void warn_of_long_sample(const train_options& options) {
  const auto sample = sample_of(options);
  if (!sample)
    return;
  // The last token needs no position.
  const auto most =
    sample->options.length + 1 - std::ssize(sample->request.ids);
  if (sample->request.tokens > most)
    spdlog::warn(
      "--sample {}: the sample will end after {} tokens, as the model knows {} "
      "positions (--seq)",
      sample->request.tokens, most, sample->options.length);
}

void print_sample(
  const train_options& options, bool shows,
  const std::function<generated(const sample_request& what)>& generate) {
  const auto sample = sample_of(options);
  if (!sample)
    return;
  const auto continuation = generate(*sample);
  auto ids = sample->request.ids;
  ids.insert(ids.end(), continuation.ids.begin(), continuation.ids.end());
  auto text = sample->tokens.text_of(ids);
  std::ranges::replace_if(
    text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  if (!shows)
    return;
  fmt::print("sample: {}\n", text);
}

namespace {

/// The rank and the layers of a stage.
struct placed_stage {
  std::int32_t rank = 0;
  layer_range layers{};
  double parameters = 0;
};

std::vector<placed_stage> placed_stages(const plan& training,
                                        const train_setup& setup) {
  const auto counts = parameter_counts(setup.model.layers);
  std::vector<placed_stage> stages;
  for (std::int32_t s = 0; s < training.stages(); ++s) {
    const auto& range = setup.trainer.split[static_cast<std::size_t>(s)];
    stages.push_back({training.placement.rank_of(s), range,
                      std::accumulate(counts.begin() + range.first,
                                      counts.begin() + range.last, 0.0)});
  }
  return stages;
}

/// The memory of copies of states; none unless the job heals.
std::optional<copy_footprint> copies_of(const train_options& options,
                                        const train_setup& setup) {
  if (!is_healing(options.healing))
    return std::nullopt;
  const auto& run = setup.trainer;
  return copies_in(state_bytes(setup.model.layers, run), run.schedule.placement,
                   layout_at_start(run), run.sharding.shards());
}

/// By rank: the most bytes that casts of its parameters take within a step;
/// empty without autocast.
std::vector<std::int64_t> cast_bytes(const plan& training,
                                     const train_setup& setup) {
  if (!setup.trainer.numerics.autocast)
    return {};
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(training.ranks()));
  for (const auto& stage : placed_stages(training, setup))
    bytes.at(static_cast<std::size_t>(stage.rank)) +=
      2 * static_cast<std::int64_t>(stage.parameters);
  return bytes;
}

std::string mebibytes(const std::vector<std::int64_t>& bytes) {
  std::vector<std::string> parts;
  for (const auto each : bytes)
    parts.push_back(
      fmt::format("{:.4g}", static_cast<double>(each) / (1 << 20)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_summary_json(const train_options& options, const train_setup& setup,
                        const plan& training, const simulation& paper) {
  const auto& run = setup.trainer;
  nlohmann::ordered_json report{{"schedule", printable(run.schedule.name)},
                                {"ranks", training.ranks()},
                                {"replicas", run.data_parallel},
                                {"microbatches", training.microbatches},
                                {"rows", options.data.batches.rows},
                                {"length", options.data.batches.length},
                                {"messages", training.messages.size()},
                                {"idle", paper.bubble},
                                {"in_flight", paper.in_flight}};
  for (const auto& stage : placed_stages(training, setup))
    report["stages"].push_back({{"rank", stage.rank},
                                {"first_layer", stage.layers.first},
                                {"last_layer", stage.layers.last - 1},
                                {"parameters", stage.parameters}});
  if (const auto copies = copies_of(options, setup))
    report["copies"] = {{"state_bytes_by_rank", copies->ranks},
                        {"held_bytes_by_process", copies->processes}};
  if (const auto casts = cast_bytes(training, setup); !casts.empty())
    report["cast_bytes_by_rank"] = casts;
  fmt::print("{}\n", report.dump(2));
}

}  // namespace

void print_plan_summary(const train_options& options,
                        const train_setup& setup) {
  const auto& run = setup.trainer;
  const auto training = *training_plan(
    run, graph_of(setup.model.layers, run.split),
    tied_stages(setup.model.layers, run.split, run.numerics.parameters));
  const auto paper = simulate(training);
  if (options.json)
    return print_summary_json(options, setup, training, paper);
  std::int32_t s = 0;
  for (const auto& stage : placed_stages(training, setup))
    fmt::print("stage {} on rank {}: layers {} to {}, {:.0f} parameters\n", s++,
               stage.rank, stage.layers.first, stage.layers.last - 1,
               stage.parameters);
  fmt::print(
    "schedule {}: {} x {}, {} of {} x {} tokens; {} messages per step\n",
    printable(run.schedule.name), counted(training.ranks(), "rank"),
    counted(run.data_parallel, "replica"),
    counted(training.microbatches, "microbatch", "es"),
    options.data.batches.rows, options.data.batches.length,
    training.messages.size());
  fmt::print(
    "on paper (backward = 2 forwards): bubble {:.1f} %, activations "
    "in flight by rank: {}\n",
    100 * paper.bubble, fmt::join(paper.in_flight, ", "));
  if (const auto casts = cast_bytes(training, setup); !casts.empty())
    fmt::print("casts of weights, made once a step: at most MiB by rank: {}\n",
               mebibytes(casts));
  if (const auto copies = copies_of(options, setup))
    fmt::print(
      "copies of states, every {}: MiB of one state by rank: {}; held in "
      "memory "
      "by process: {}\n",
      counted(options.healing.snapshot_every, "step"), mebibytes(copies->ranks),
      mebibytes(copies->processes));
}

void warn_unless_finite(const std::string& parameter) {
  if (!parameter.empty())
    spdlog::warn("the parameter '{}' holds a NaN or an infinity at the start",
                 printable(parameter));
}

void loss_watch::see(const step_event& step) {
  for (const auto& loss : step.losses) {
    if (std::isfinite(loss.value))
      continue;
    // With this option, the stages of a pipeline throw within the step.
    if (options_.halt_on_nan)
      fail(error_code::op_failed, "step {}: the {} is {}; {}", step.source.step,
           loss.name, printable(loss.value), advice());
    if (count_++ == 0) {
      first_ = step.source.step;
      spdlog::warn(
        "step {}: the {} is {}; the run continues; --halt-on-nan would stop it",
        first_, loss.name, printable(loss.value));
    }
    return;
  }
}

/// How to keep the next run finite. A constant loss scale is the first suspect:
/// the gradients that it makes infinite are infinite at any learning rate.
std::string loss_watch::advice() const {
  const auto& scale = options_.loss_scale;
  return scale.first() > 1 && !scale.dynamic ? fmt::format(
           "use a --loss-scale below {:g}, or a dynamic one "
           "(--dynamic-loss-scale), or lower --lr",
           scale.first())
                                             : "lower --lr, or give --clip";
}

void loss_watch::require_finite(const std::string& parameter) const {
  if (!parameter.empty())
    fail(error_code::op_failed,
         "the trained parameters are not finite: '{}' holds a NaN or an "
         "infinity; {}",
         printable(parameter), advice());
}

void loss_watch::conclude(const std::string& saved) const {
  if (count_ == 0)
    return;
  const auto where =
    saved.empty() ? std::string{} : fmt::format(", as saved in {},", saved);
  spdlog::error(
    "the loss was not finite in {} steps, first in step {}: the trained "
    "parameters{} are likely useless; {}; --halt-on-nan stops a run at the "
    "first such loss, and --monitor overflow names the tensor where it arose",
    count_, first_, where, advice());
}

}  // namespace troupe::cli
