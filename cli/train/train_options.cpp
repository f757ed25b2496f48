#include "troupe/cli/train/train_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/process_flags.hpp"
#include "troupe/cli/train/folder_flags.hpp"
#include "troupe/monitors/monitor_spec.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

std::string schedule_names() {
  std::vector<std::string_view> names;
  for (const auto& known : builtin_schedules())
    names.push_back(known.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_data_flags(CLI::App& app, data_options& o, loading_options& loading) {
  app.option_defaults()->group("Data");
  app.add_option("--text", o.text,
                 "text files to train on, concatenated, or mixed by --mix");
  app
    .add_option("--mix", o.mix,
                "mix rows of the texts by these weights, one per text: 0.7,0.3")
    ->delimiter(',')
    ->check(number_above(0))
    ->type_name("WEIGHTS");
  app
    .add_option(
      "--loss-mask", o.loss_mask,
      "for each text a file of as many numbers as it has tokens: 1 if "
      "the token counts in the loss, 0 if not, as a prompt's "
      "(scripts/tokenize writes it)")
    ->type_name("FILES");
  app
    .add_option("--text-format", o.text_format,
                "bytes, llm_c, nano_gpt, megatron (.bin with its .idx), npy, "
                "or auto")
    ->check(
      CLI::IsMember({"auto", "bytes", "llm_c", "megatron", "nano_gpt", "npy"}));
  app.add_option("--vocabulary", o.batches.vocabulary, "number of token ids")
    ->check(whole_number(1, 1 << 24));
  app.add_option("--microbatch-size", o.batches.rows, "rows of a microbatch")
    ->check(whole_number(1, 1 << 20));
  app.add_option("--seq", o.batches.length, "tokens of a row")
    ->check(whole_number(1, 1 << 20));
  app
    .add_option(
      "--validation-fraction", o.validation_fraction,
      "share of the text, at its end, held out for validation; 0: none")
    ->check(number(0, 0.9));
  app
    .add_option(
      "--validation-microbatches", o.validation_microbatches,
      "microbatches per validation, each counted once; 0: all held-out text")
    ->check(whole_number(0));
  app
    .add_option("--eval-every", o.eval_every,
                "steps between validations; 0: only at the end")
    ->check(whole_number(0));
  app.add_option("--prefetch", loading.prefetch, "microbatches loaded ahead")
    ->check(whole_number(1, 1024));
  app
    .add_option("--slow-load", loading.slow_seconds,
                "warn if loading a microbatch takes longer, in seconds")
    ->check(number(0));
}

void add_replica_flags(CLI::App& app, partition_options& o) {
  app
    .add_option("--data-parallel", o.data_parallel,
                "replicas D of the pipeline")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--shard", o.shard,
                "what to shard over replicas: nothing (replicate), gradients "
                "and optimizer state (gradients), parameters as well (all), or "
                "all within groups of replicas (hybrid)")
    ->check(CLI::IsMember({"replicate", "gradients", "all", "hybrid"}))
    ->type_name("WHAT");
  app
    .add_option("--shard-group", o.sharding.group,
                "replicas in a sharding group; 0: all")
    ->check(whole_number(0, 1 << 16));
  app
    .add_option("--shard-multiple", o.sharding.multiple,
                "pad the parameters of a stage to a multiple of shards x this "
                "many elements; a multiple of 32")
    ->check(whole_number(1, largest_shard_multiple));
  app
    .add_option("--shard-whole", o.sharding.most_whole,
                "most stages of a rank whose parameters are gathered at once; "
                "at least V: they stay gathered between forward and backward")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--divide-gradients", o.division,
                "divisors of the replicas' gradients before and after the sum: "
                "PRE,POST (1,1: the sum), mean (1,D), or balanced (both near "
                "the square root of D)")
    ->type_name("HOW");
  app
    .add_option(
      "--reduce-dtype", o.reduce_dtype,
      "sum 16-bit gradients of replicas in fp32, or in their own dtype (same)")
    ->check(CLI::IsMember({"fp32", "same"}));
}

void add_pipeline_flags(CLI::App& app, train_options& o) {
  app.option_defaults()->group("Pipeline");
  app.add_option("--ranks", o.partition.shape.ranks, "pipeline ranks P")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--stages-per-rank", o.partition.shape.stages_per_rank,
                "stages V of a rank (interleaved schedules)")
    ->check(whole_number(1, 1 << 16));
  add_replica_flags(app, o.partition);
  app
    .add_option(
      "--schedule", o.partition.schedule,
      schedule_names() + ", search (the shortest found), or a FILE.csv")
    ->default_str(usual_schedules);
  o.partition.searching.add_to(app);
  app
    .add_option("--plan", o.partition.plan,
                "a compiled plan, as written by troupe plan --format plan, "
                "instead of --schedule")
    ->excludes("--schedule");
  app
    .add_option("--microbatches", o.partition.shape.microbatches,
                "microbatches m of a step and replica")
    ->check(whole_number(1, 1 << 20));
  app
    .add_option("--breadth", o.partition.shape.breadth,
                "microbatches of a group (depth_first, two_bw)")
    ->check(whole_number(0, 1 << 20));
  app
    .add_option("--slices", o.partition.shape.slices,
                "slices K of a microbatch's sequence (seq_1f1b)")
    ->check(whole_number(1, INT16_MAX));
  app.add_option(
    "--split", o.partition.split,
    "layers on stages: blocks spread evenly (even), by parameters, "
    "measured, or by hand: 5,5; --model says what the layers are");
  app.add_flag("--recompute", o.numerics.recompute,
               "recompute forwards in the backward, to save memory");
  o.partition.offload.add_to(app);
  app
    .add_option(
      "--weight-split", o.optimisation.weight_split,
      "how I and W split a backward: by layers that support it (layers), or, "
      "for any module, by nodes of the autograd graph (graph)")
    ->check(CLI::IsMember({"automatic", "layers", "graph"}))
    ->type_name("HOW");
  app
    .add_option("--threads", o.execution.intra_op_threads,
                "intra-op threads of a rank")
    ->check(whole_number(1, 1024));
  app.add_flag(
    "--plain", o.plain,
    "train the same model in a plain loop without actors, as a reference");
}

void add_device_flags(CLI::App& app, device_options& o) {
  app.option_defaults()->group("Devices");
  app.add_option("--device", o.device,
                 "cpu, cuda (ranks take all devices in turns, --plain the "
                 "first), or cuda:0,2");
  app
    .add_option(
      "--overlap", o.overlap,
      "what overlaps with compute: data,reduce,transfers,pairs (of overlapped "
      "ops),copies (of activations), all or none; results do not change")
    ->type_name("KINDS");
  app.add_flag("--cuda-graphs", o.cuda_graphs,
               "launch a recorded step, up to its gradients, at once; for one "
               "GPU and one process");
  app.add_flag("--deterministic", o.deterministic,
               "bitwise reproducible runs on a GPU as well, which is slower; "
               "CPU runs always are");
}

void add_order_flags(CLI::App& app, order_options& o) {
  app.option_defaults()->group("Order of ops");
  app
    .add_option(
      "--order", o.order,
      "strict: in the schedule's order; ready_first: weight backwards and "
      "updates that are ready overtake waiting ops of their rank; any_ready: "
      "any ready op does. Results do not change")
    ->check(CLI::IsMember({"strict", "ready_first", "any_ready"}))
    ->type_name("ORDER");
  app
    .add_option("--order-log", o.log,
                "write the order in which each rank started its ops, one line "
                "per rank and step")
    ->type_name("FILE");
  app
    .add_option(
      "--replay", o.replay,
      "start ops in the order of an --order-log with at least as many steps")
    ->type_name("FILE");
  app
    .add_option(
      "--replan-every", o.replan_every,
      "every N steps search for a faster order of ops, using measured costs; "
      "0: never. `troupe replan` does so for a live job")
    ->check(whole_number(0))
    ->type_name("N");
  app
    .add_option("--slow", o.slow,
                "simulate a straggler: rank.1=1.5 makes the compute ops of "
                "rank 1 take 1.5 times as long")
    ->type_name("ENTRIES");
  app
    .add_option("--slow-from", o.slow_from, "first step that --slow applies to")
    ->check(whole_number(1))
    ->type_name("STEP");
}

void add_optimisation_flags(CLI::App& app, train_options& o) {
  app.option_defaults()->group("Optimisation");
  app.add_option("--steps", o.steps, "optimizer updates")
    ->check(whole_number(0));
  add_optimizer_flags(app, o.optimisation.optimizer);
  app
    .add_option("--warmup", o.numerics.learning_rate.warmup_steps,
                "steps of linear warm-up")
    ->check(whole_number(0));
  app.add_option("--decay", o.optimisation.decay, "of the learning rate")
    ->check(CLI::IsMember({"constant", "cosine", "linear"}));
  app
    .add_option("--final-lr", o.numerics.learning_rate.final_fraction,
                "learning rate at the end of the decay, as a fraction of --lr")
    ->check(number(0, 1));
  app
    .add_option("--clip", o.numerics.clip,
                "largest gradient norm; 0: no clipping")
    ->check(number(0));
  app
    .add_option("--clip-norm-type", o.optimisation.clip_norm_type,
                "p of the gradient p-norm that is clipped and reported: 1, 2, "
                "3, or inf (the largest value)")
    ->check(CLI::IsMember({"1", "2", "3", "inf"}))
    ->type_name("P");
  app
    .add_option(
      "--autocast", o.optimisation.autocast,
      "autocast to bf16 or fp16 where it is faster; parameters stay fp32")
    ->check(CLI::IsMember({"none", "bf16", "fp16"}));
  app
    .add_option("--dtype", o.optimisation.dtype,
                "dtype of parameters, activations and gradients; with bf16 and "
                "fp16 the optimizer updates fp32 master weights")
    ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_flag("--offload-optimizer", o.numerics.offload_optimizer,
               "keep optimizer state in host memory and update there, to save "
               "device memory");
  app
    .add_option("--buffer-dtype", o.optimisation.buffer_dtype,
                "dtype of the model's buffers; same: that of the parameters")
    ->check(CLI::IsMember({"same", "fp32", "bf16", "fp16"}));
  app
    .add_option("--loss-scale", o.numerics.loss_scale.initial,
                "initial loss scale")
    ->check(number_above(0));
  app.add_flag("--dynamic-loss-scale", o.numerics.loss_scale.dynamic,
               "halve the scale and skip the update on an overflow");
  app
    .add_option("--seed", o.data.batches.seed,
                "seed of weights, data order and sampling")
    ->check(whole_number(0));
  app.add_flag("--halt-on-nan", o.numerics.halt_on_nan,
               "stop with an error when the loss is not finite");
}

void add_output_flags(CLI::App& app, output_options& o) {
  app.option_defaults()->group("Output");
  app.add_option("--log-level", o.log_level, "of messages on stderr")
    ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}));
  app.add_option("--trace", o.trace,
                 "Chrome/Perfetto trace of the last steps (JSON)");
  app.add_option("--timeline", o.timeline,
                 "picture of the last step's timeline (SVG)");
  app.add_option("--costs-out", o.costs_out,
                 "write measured costs of ops, for simulate --costs");
  app.add_option("--log-json", o.log_json,
                 "write metrics, one JSON line per step; a resumed run\n"
                 "appends to the file");
  app
    .add_option("--monitor", o.monitor,
                "attach a monitor: NAME or NAME:key=value,...; repeatable:\n"
                  + monitor_help())
    ->allow_extra_args(false);
  app
    .add_option("--sink", o.sink,
                "where steps and monitors write their metrics; repeatable:\n"
                  + sink_help())
    ->allow_extra_args(false);
  app.add_option("--save-initial", o.save_initial,
                 "write the parameters before the first step (safetensors)");
  app.add_option("--save-parameters", o.save_parameters,
                 "write the parameters after the last step (safetensors)");
  app
    .add_option("--sample", o.sample,
                "tokens to generate at the end, at most --seq with the prompt: "
                "text, or ids if tokens are not bytes")
    ->check(whole_number(0));
  app.add_option("--prompt", o.prompt,
                 "prompt of the sample: text, or ids such as '5 17'");
  app
    .add_option("--temperature", o.sampling.temperature,
                "of sampling; 0: the most likely byte")
    ->check(number(0));
}

void add_checkpoint_flags(CLI::App& app, checkpoint_options& o) {
  app.option_defaults()->group("Checkpoints");
  app
    .add_option(
      "--checkpoints", o.folder,
      "folder for checkpoints (parameters, optimizer and data position), "
      "written at the end and every --checkpoint-every steps")
    ->type_name("DIR");
  app
    .add_option("--checkpoint-every", o.every,
                "steps between checkpoints; 0: only at the end")
    ->check(whole_number(0))
    ->type_name("N");
  app.add_option("--keep", o.kept.last, "number of latest checkpoints to keep")
    ->check(whole_number(1, 1 << 20))
    ->type_name("K");
  app
    .add_option("--keep-every", o.kept.every,
                "also keep checkpoints of every N-th step; 0: none")
    ->check(whole_number(0))
    ->type_name("N");
  app
    .add_option(
      "--resume", o.resume,
      "resume from the last intact checkpoint in --checkpoints, if any (auto), "
      "or from this one; ranks, schedule and replicas may differ")
    ->type_name("auto|DIR");
}

void add_access_flags(CLI::App& app, access_options& o) {
  app.option_defaults()->group("Attaching to a running job");
  app
    .add_option("--endpoint", o.endpoint,
                "where clients attach: unix:PATH, tcp:HOST:PORT (port 0: any) "
                "or none; by default a private socket, which is logged")
    ->default_str(description("the user's own socket"));
  app.add_option(
    "--endpoint-token-file", o.endpoint_token_file,
    "file with a secret that clients must present; required for tcp");
  app.add_option("--dashboard", o.dashboard,
                 "serve a page that shows the run at HOST:PORT, such as "
                 "127.0.0.1:8080 (port 0: any); the address is logged");
  app.add_option("--dashboard-token-file", o.dashboard_token_file,
                 "file with a password for the page; required unless HOST is a "
                 "loopback address");
}

}  // namespace

void add_train_flags(CLI::App& app, train_options& options) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_flags(app, options.data, options.execution.loading);
  add_model_flags(app, options.model);
  add_folder_flags(app, options);
  app.add_option("--initial", options.model.initial,
                 "start from these parameters (safetensors)");
  add_pipeline_flags(app, options);
  add_device_flags(app, options.devices);
  add_order_flags(app, options.order);
  add_optimisation_flags(app, options);
  add_output_flags(app, options.output);
  add_checkpoint_flags(app, options.checkpoints);
  add_access_flags(app, options.access);
  add_process_flags(app, options.processes);
  app.option_defaults()->group("Options");
  app.add_flag("--print-config", options.print_config,
               "print all settings as TOML, for --config, and exit");
  app.add_flag("--dry-run", options.dry_run,
               "check everything, show the plan, and exit");
  app.add_flag("--json", options.json, "with --dry-run: the plan as JSON")
    ->needs("--dry-run");
}

}  // namespace troupe::cli
