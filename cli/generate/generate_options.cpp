#include "troupe/cli/generate/generate_options.hpp"

#include <CLI/CLI.hpp>

#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/process_flags.hpp"

namespace troupe::cli {

namespace {

void add_prompt_flags(CLI::App& app, generate_options& o) {
  app.option_defaults()->group("Prompts");
  app
    .add_option("--prompt", o.prompts,
                "text to continue, or ids such as '5 17' if tokens are not "
                "bytes; repeatable")
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false)
    ->type_name("TEXT");
  app
    .add_option("--prompts", o.prompts_file,
                "file with one prompt per line; a .jsonl holds objects with "
                "\"text\" or \"ids\", and optionally max_tokens, temperature, "
                "top_k, top_p, seed")
    ->type_name("FILE");
  app.add_flag("--ids", o.ids,
               "prompts, stops and output are lists of ids; always so if the "
               "vocabulary has more than 256 ids");
}

void add_sampling_flags(CLI::App& app, generate_options& o) {
  auto& sampling = o.usual.sampling;
  app.option_defaults()->group("Tokens");
  app
    .add_option("--max-tokens", o.usual.tokens, "tokens to generate per prompt")
    ->check(whole_number(0, 1 << 30));
  app
    .add_option("--temperature", sampling.temperature,
                "sampling temperature; 0: always the most likely token")
    ->check(number(0));
  app
    .add_option("--top-k", sampling.top_k,
                "sample from the K most likely tokens; 0: all")
    ->check(whole_number(0));
  app
    .add_option(
      "--top-p", sampling.top_p,
      "sample from the fewest tokens that together have this probability")
    ->check(number_above(0, 1));
  app
    .add_option("--seed", sampling.seed, "seed of the sampling of each prompt")
    ->check(whole_number(0));
  app
    .add_option(
      "--stop", o.stops,
      "end a continuation before this text (ids: as --prompt); repeatable")
    ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
    ->allow_extra_args(false)
    ->type_name("TEXT");
  app.add_flag("--ignore-end-of-text", o.past_text_ends,
               "go on behind the end-of-text tokens that a model folder names "
               "(eos_token_id), before which a continuation ends otherwise");
}

void add_run_flags(CLI::App& app, generate_options& o) {
  auto& run = o.run;
  app.option_defaults()->group("Pipeline");
  app.add_option("--ranks", run.partition.shape.ranks, "pipeline ranks P")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--stages-per-rank", run.partition.shape.stages_per_rank,
                "stages V of a rank")
    ->check(whole_number(1, 1 << 16));
  app.add_option("--split", run.partition.split,
                 "layers on stages, as for train: even, parameters, measured, "
                 "or by hand: 5,5");
  app
    .add_option("--microbatches", o.generation.microbatches,
                "prompts, or groups of them, in flight; 0: 2 P")
    ->check(whole_number(0, 1 << 16));
  app
    .add_option("--microbatch-size", o.generation.rows,
                "prompts of equal length that form a microbatch: more is "
                "faster, but may round differently")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--positions", o.generation.positions,
                "most tokens per step; between steps text is printed and "
                "waiting prompts begin")
    ->check(whole_number(1, INT16_MAX));
  app
    .add_option("--threads", run.execution.intra_op_threads,
                "intra-op threads of a rank")
    ->check(whole_number(1, 1024));
  app
    .add_option("--dtype", run.optimisation.dtype,
                "dtype of the parameters of a model folder, and of what is "
                "computed")
    ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--device", run.devices.device,
                 "cpu, cuda (ranks take all devices in turns), or cuda:0,2");
}

/// Values that the checkpoint has are not asked for.
void add_stored_flags(CLI::App& app, generate_options& o) {
  app.option_defaults()->always_capture_default(false);
  add_model_flags(app, o.model.flags);
  app.add_option("--seq", o.model.length, "positions of the model")
    ->check(whole_number(1, 1 << 24));
  app.add_option("--vocabulary", o.model.vocabulary, "number of token ids")
    ->check(whole_number(1, 1 << 24));
  app.option_defaults()->always_capture_default();
}

}  // namespace

void add_generate_flags(CLI::App& app, generate_options& options) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.option_defaults()->group("Options");
  app
    .add_option("--checkpoint", options.checkpoint,
                "a checkpoint, a folder of them (its last one), a "
                ".safetensors file of parameters, or a model folder of Hugging "
                "Face's transformers")
    ->required()
    ->type_name("PATH");
  app.add_flag("--json", options.json,
               "print one JSON line per prompt: ids, text, and figures");
  app
    .add_option("--log-level", options.run.output.log_level,
                "of messages on stderr")
    ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}));
  add_prompt_flags(app, options);
  add_sampling_flags(app, options);
  add_run_flags(app, options);
  add_stored_flags(app, options);
  add_process_flags(app, options.run.processes);
}

}  // namespace troupe::cli
