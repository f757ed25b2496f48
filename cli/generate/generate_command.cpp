#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/fnv_hash.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/generate/generate_output.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/generation/generation.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

constexpr auto generate_help = R"(
Examples:
  troupe generate --checkpoint run --prompt "In the beginning"
  troupe generate --checkpoint model.safetensors --model gpt --heads 4 \
    --prompts prompts.jsonl --ranks 2 --json
  troupe launch --processes 2 -- generate --checkpoint run --ranks 2 \
    --prompts prompts.txt

The same prompts, seed and model give the same tokens for any number of ranks
and processes.
Exit codes: 0 done; 1 it failed; 2 wrong usage; 129 / 130 / 143 stopped by
SIGHUP / SIGINT / SIGTERM.)";

/// The flags of `troupe generate`.
struct generate_options {
  generate_options() { run.partition.shape = {}; }

  std::string checkpoint;
  model_request model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::vector<std::string> stops;
  generation_request usual;  // without its ids
  generation_options generation;
  bool past_text_ends = false;
  bool ids = false;
  bool json = false;
  /// the pipeline, its devices and processes, with the flags of train
  train_options run;
};

void add_prompt_flags(CLI::App& app, generate_options& o) {
  app.option_defaults()->group("Prompts: texts to continue, or their file");
  add_value(app, "--prompt TEXT", o.prompts,
            "text to continue, or ids such as '5 17' if tokens are not bytes; "
            "repeatable")
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false);
  add_value(
    app, "--prompts FILE", o.prompts_file,
    "file with one prompt per line; a .jsonl holds objects with \"text\" or "
    "\"ids\", and optionally max_tokens, temperature, top_k, top_p, seed");
  app.add_flag("--ids", o.ids,
               "prompts, stops and output are lists of ids; always so if the "
               "vocabulary has more than 256 ids");
}

void add_sampling_flags(CLI::App& app, generate_options& o) {
  auto& sampling = o.usual.sampling;
  app.option_defaults()->group("Tokens: how many, and how they are sampled");
  add_value(app, "--max-tokens", o.usual.tokens,
            "tokens to generate per prompt", whole_number(0, 1 << 30));
  add_value(app, "--temperature", sampling.temperature,
            "sampling temperature; 0: always the most likely token", number(0));
  add_value(app, "--top-k", sampling.top_k,
            "sample from the K most likely tokens; 0: all", whole_number(0));
  add_value(app, "--top-p", sampling.top_p,
            "sample from the fewest tokens that together have this probability",
            number_above(0, 1));
  add_value(app, "--seed", sampling.seed,
            "of the sampling; each prompt has a stream of its own",
            whole_number(0));
  add_value(
    app, "--stop TEXT", o.stops,
    "end a continuation before this text (ids: as --prompt); repeatable")
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false);
  app.add_flag("--ignore-end-of-text", o.past_text_ends,
               "go on behind the end-of-text tokens that a model folder names "
               "(eos_token_id), before which a continuation ends otherwise");
}

void add_run_flags(CLI::App& app, generate_options& o) {
  auto& run = o.run;
  app.option_defaults()->group(
    "Pipeline: ranks, microbatches, threads, devices");
  add_value(app, "--ranks", run.partition.shape.ranks, "pipeline ranks P",
            whole_number(1, 1 << 16));
  add_value(app, "--stages-per-rank", run.partition.shape.stages_per_rank,
            "stages V of a rank", whole_number(1, 1 << 16));
  app.add_option("--split", run.partition.split,
                 "layers on stages, as for train: even, parameters, measured, "
                 "or by hand: 5,5");
  add_value(app, "--microbatches", o.generation.microbatches,
            "prompts, or groups of them, in flight; 0: 2 P",
            whole_number(0, 1 << 16));
  add_value(app, "--microbatch-size", o.generation.rows,
            "prompts of equal length that form a microbatch: more is faster, "
            "but may round differently",
            whole_number(1, 1 << 16));
  add_value(app, "--positions", o.generation.positions,
            "most tokens per step; between steps text is printed and waiting "
            "prompts begin",
            whole_number(1, INT16_MAX));
  add_value(app, "--threads", run.execution.intra_op_threads,
            "intra-op threads of a rank", whole_number(1, 1024));
  add_choice(
    app, "--dtype", run.numerics.dtypes.parameters, dtype_choices(),
    "dtype of the parameters of a model folder, and of what is computed");
  app.add_option("--device", run.devices.device,
                 "cpu, cuda (ranks take all devices in turns), or cuda:0,2");
}

/// Flags for values that the checkpoint may lack.
void add_stored_flags(CLI::App& app, generate_options& o) {
  app.option_defaults()->always_capture_default(false);
  add_model_flags(app, o.model.flags, false);
  add_value(app, "--seq", o.model.length, "positions of the model",
            whole_number(1, 1 << 24));
  add_value(app, "--vocabulary", o.model.vocabulary, "number of token ids",
            whole_number(1, 1 << 24));
  app.option_defaults()->always_capture_default();
}

void add_generate_flags(CLI::App& app, generate_options& options) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->group("Options");
  add_value(
    app, "--checkpoint PATH", options.checkpoint,
    "a checkpoint, a folder of them (its last one), a .safetensors file of "
    "parameters, or a model folder of Hugging Face's transformers")
    ->required();
  app.add_flag("--json", options.json,
               "print one JSON line per prompt: ids, text, and figures");
  add_log_level(app, options.run.output);
  add_prompt_flags(app, options);
  add_sampling_flags(app, options);
  add_run_flags(app, options);
  add_stored_flags(app, options);
  add_process_flags(app, options.run.processes);
}

/// All prompts, in the order of the flags.
std::vector<generation_request> requests_of(const generate_options& o,
                                            const token_texts& tokens,
                                            const generation_options& options) {
  std::vector<generation_request> requests;
  for (const auto& text : o.prompts) {
    auto request = o.usual;
    request.ids = tokens.ids_of(text, "--prompt");
    requests.push_back(std::move(request));
  }
  if (!o.prompts_file.empty())
    for (auto& each : read_prompts(read_file(o.prompts_file), o.prompts_file,
                                   tokens, o.usual, options))
      requests.push_back(std::move(each));
  if (requests.empty())
    fail(error_code::invalid_argument,
         "no prompt given; give --prompt TEXT or --prompts FILE");
  return requests;
}

struct generate_setup {
  stored_model model;
  token_texts tokens;
  std::vector<generation_request> requests;
  generation_options generation;
  trainer_options trainer;
};

/// Checks everything before any work.
generate_setup make_setup(const generate_options& o) {
  generate_setup setup;
  auto model = o.model;
  model.dtype = o.run.numerics.dtypes.parameters.value_or(at::kFloat);
  std::error_code trouble;
  if (!std::filesystem::exists(o.checkpoint, trouble) && !trouble)
    fail(error_code::io,
         "--checkpoint {}: there is no such file or folder; give a folder that "
         "train --checkpoints wrote, a model's folder, or a .safetensors file",
         printable(o.checkpoint));
  setup.model = open_model(o.checkpoint, model);
  if (model.dtype != at::kFloat && !setup.model.model.folder)
    fail(error_code::invalid_argument,
         "--dtype bf16 and fp16 are for a --checkpoint that is a model folder");
  const auto& data = setup.model.data;
  setup.tokens = {data.vocabulary, !o.ids && data.vocabulary <= 256};
  setup.generation = o.generation;
  setup.generation.length = data.length;
  for (const auto& stop : o.stops)
    setup.generation.stops.push_back(setup.tokens.ids_of(stop, "--stop"));
  if (!o.past_text_ends)
    for (const auto id : setup.model.text_ends)
      setup.generation.stops.push_back({id});
  setup.requests = requests_of(o, setup.tokens, setup.generation);
  require_legal(setup.requests, setup.generation);
  auto run = o.run;
  run.data.batches = data;
  run.steps = 0;  // trains nothing
  run.partition.schedule = "breadth_first";
  run.partition.shape.microbatches = 1;
  setup.trainer = pipeline_of(
    run, setup.model.model,
    setup.model.model.folder ? model_source::folder : model_source::file);
  return setup;
}

std::size_t longest_stop(const generation_options& options) {
  std::size_t longest = 0;
  for (const auto& stop : options.stops)
    longest = std::max(longest, stop.size());
  return longest;
}

void run_to_end(const generate_options& o, const generate_setup& setup,
                signal_watch& signals) {
  trainer run(setup.model.model.layers, setup.trainer);
  if (!setup.model.model.folder)
    run.load(setup.model.parameters, o.checkpoint);
  if (const auto parameter = run.not_finite();
      leads_job(setup.trainer.job) && !parameter.empty())
    spdlog::warn(
      "{}: '{}' holds a NaN or an infinity; the texts are likely "
      "useless",
      printable(o.checkpoint), printable(parameter));
  signals.require_none("the start");
  signals.on_end([&](const signal_request& request) {
    run.stop(request.name);
    return fmt::format(
      "{}: the run stops after this step; a second signal stops it at once",
      request.name);
  });
  // The handler must not outlive the run.
  const std::shared_ptr<void> unset(nullptr,
                                    [&](void*) { signals.defer_signals(); });
  const bool shows = leads_job(setup.trainer.job);
  std::optional<generated_output> output;
  if (shows)
    output.emplace(setup.requests, setup.tokens, longest_stop(setup.generation),
                   o.json);
  const auto results =
    run.generate(setup.requests, setup.generation,
                 [&](std::size_t request, const generated& so_far) {
                   if (output)
                     output->see(request, so_far);
                 });
  if (output)
    output->finish(results);
  if (setup.trainer.job)  // no process succeeds before process 0 has
    setup.trainer.job->share({frame_type::mail, {}, {}});
  signals.require_none("the output");
}

/// Files at equal paths may differ between machines, or while a run saves
/// checkpoints.
job_description contents_of(const generate_options& o,
                            const generate_setup& setup) {
  std::vector<std::string> files;
  if (const auto& folder = setup.model.model.folder)
    files = folder->files();
  else if (is_tensor_file(o.checkpoint))
    files = {o.checkpoint};
  else
    files = {fmt::format("{}/{}", checkpoint_in(o.checkpoint), manifest_name)};
  fnv_hash hash;
  const auto add = [&hash](auto number) {
    hash.add({reinterpret_cast<const char*>(&number), sizeof number});
  };
  for (const auto& request : setup.requests) {
    add(request.ids.size());
    for (const auto id : request.ids)
      add(id);
    add(request.tokens);
    add(request.sampling.temperature);
    add(request.sampling.top_k);
    add(request.sampling.top_p);
    add(request.sampling.seed);
    add(request.sampling.stream.value_or(UINT64_MAX));
  }
  job_description contents{
    {"what the prompts are",
     fmt::format("{} with hash {:016x}", setup.requests.size(), hash.value())},
    {"which tokens end a text",
     fmt::format("{}", fmt::join(setup.model.text_ends, " "))}};
  for (const auto& file : files)
    contents.emplace_back("what " + file + " holds", content_text(file));
  return contents;
}

void generate(const CLI::App& command, generate_options& o) {
  const auto level = o.run.output.log_level;
  spdlog::set_level(
    prints_common_output() ? level : std::max(level, spdlog::level::err));
  for (const auto* option : command.get_options())
    if (option->count() > 0)
      o.model.explicit_flags.push_back(option->get_single_name());
  signal_watch signals;
  auto devices = open_devices(o.run.devices, false);
  prepare_compute_thread(o.run.execution.intra_op_threads);
  auto setup = make_setup(o);
  setup.trainer.devices = std::move(devices);
  require_job(o.run);
  try {
    setup.trainer.job =
      join_job(command, o.run, signals, contents_of(o, setup));
    run_to_end(o, setup, signals);
  } catch (const error& reason) {
    if (signals.exit_code() == 0)
      throw;
    signals.end_process(reason.what());
  }
}

}  // namespace

void add_generate_command(CLI::App* command) {
  auto options = std::make_shared<generate_options>();
  add_generate_flags(*command, *options);
  command->footer(generate_help);
  command->callback([command, options] { generate(*command, *options); });
}

}  // namespace troupe::cli
