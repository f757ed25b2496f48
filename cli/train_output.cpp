#include "troupe/cli/train_output.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "troupe/actors/trainer_plans.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/models/sample.hpp"
#include "troupe/engine/plan/simulate.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/split.hpp"

namespace troupe::cli {

void save(const std::string& path, const parameter_list& parameters) {
  if (!path.empty() && !parameters.empty())
    write_safetensors(path, parameters, {{"format", "pt"}});
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
  return {options.steps, stdout, ::isatty(STDOUT_FILENO) == 1};
}

bool validates_at(const train_options& options, const train_setup& setup,
                  std::int64_t step) {
  const bool due = step == options.steps
                   || (options.data.validate_every > 0
                       && step % options.data.validate_every == 0);
  return setup.validation && due;
}

bool tokens_are_text(const data_options& options) {
  return options.batches.vocabulary <= 256
         && std::ranges::all_of(options.text, [&](const std::string& path) {
              return options.text_format == "auto"
                       ? guess_token_format(path) == token_format::bytes
                       : options.text_format == "bytes";
            });
}

std::vector<std::int64_t> prompt_ids(const train_options& options) {
  if (options.output.prompt == output_options{}.prompt)
    return {0};
  std::vector<std::int64_t> ids;
  std::istringstream words(options.output.prompt);
  for (std::string word; words >> word;) {
    const auto id = parse_number<std::int64_t>(word);
    if (!id || *id < 0 || *id >= options.data.batches.vocabulary)
      fail(
        error_code::invalid_argument,
        "--prompt '{}': the tokens are no bytes of text, so that a prompt is "
        "a list of ids from 0 to {}, such as '5 17'",
        options.output.prompt, options.data.batches.vocabulary - 1);
    ids.push_back(*id);
  }
  return ids.empty() ? std::vector<std::int64_t>{0} : ids;
}

void print_sample(
  const train_options& options, bool shows,
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of) {
  if (options.output.sampling.tokens == 0)
    return;
  const at::NoGradGuard no_grad;
  auto sampling = options.output.sampling;
  sampling.length = options.data.batches.length;
  sampling.seed = options.data.batches.seed;
  const auto sampled =
    tokens_are_text(options.data)
      ? sample_text(logits_of, options.output.prompt, sampling)
      : fmt::format(
        "{}",
        fmt::join(sample_ids(logits_of, prompt_ids(options), sampling), " "));
  if (shows)
    fmt::print("sample: {}\n", sampled);
}

namespace {

/// A stage's rank and layers.
struct placed_stage {
  std::int32_t rank = 0;
  layer_range layers{};
  double parameters = 0;
};

std::vector<placed_stage> placed_stages(const plan& made,
                                        const train_setup& setup) {
  const auto counts = parameter_counts(setup.model.layers);
  std::vector<placed_stage> stages;
  for (std::int32_t s = 0; s < made.stages(); ++s) {
    const auto& range = setup.trainer.split[static_cast<std::size_t>(s)];
    stages.push_back({made.placement.rank_of(s), range,
                      std::accumulate(counts.begin() + range.first,
                                      counts.begin() + range.last, 0.0)});
  }
  return stages;
}

void print_summary_json(const train_options& options, const train_setup& setup,
                        const plan& made, const simulation& paper) {
  const auto& run = setup.trainer;
  nlohmann::ordered_json report{{"schedule", printable(run.schedule.name)},
                                {"ranks", made.ranks()},
                                {"replicas", run.data_parallel},
                                {"microbatches", made.microbatches},
                                {"rows", options.data.batches.rows},
                                {"length", options.data.batches.length},
                                {"messages", made.messages.size()},
                                {"idle", paper.bubble},
                                {"in_flight", paper.in_flight}};
  for (const auto& stage : placed_stages(made, setup))
    report["stages"].push_back({{"rank", stage.rank},
                                {"first_layer", stage.layers.first},
                                {"last_layer", stage.layers.last - 1},
                                {"parameters", stage.parameters}});
  fmt::print("{}\n", report.dump(2));
}

}  // namespace

void print_plan_summary(const train_options& options,
                        const train_setup& setup) {
  const auto& run = setup.trainer;
  const auto made =
    *training_plan(run, graph_of(setup.model.layers, run.split));
  const auto paper = simulate(made);
  if (options.json)
    return print_summary_json(options, setup, made, paper);
  std::int32_t s = 0;
  for (const auto& stage : placed_stages(made, setup))
    fmt::print("stage {} on rank {}: layers {} to {}, {:.0f} parameters\n", s++,
               stage.rank, stage.layers.first, stage.layers.last - 1,
               stage.parameters);
  fmt::print(
    "schedule {}: {} ranks x {} replicas, {} microbatches of {} x {} "
    "tokens; {} messages a step\n",
    printable(run.schedule.name), made.ranks(), run.data_parallel,
    made.microbatches, options.data.batches.rows, options.data.batches.length,
    made.messages.size());
  fmt::print(
    "on paper (backward = 2 forwards): bubble {:.1f} %, activations "
    "in flight by rank: {}\n",
    100 * paper.bubble, fmt::join(paper.in_flight, ", "));
}

}  // namespace troupe::cli
