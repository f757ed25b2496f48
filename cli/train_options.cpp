#include "troupe/cli/train_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/process_flags.hpp"
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
                 "text files to train on, read in a row, or by --mix");
  app
    .add_option("--mix", o.mix,
                "mix the rows of the texts: a weight for each, as 0.7,0.3")
    ->delimiter(',')
    ->check(number_above(0))
    ->type_name("WEIGHTS");
  app
    .add_option("--text-format", o.text_format,
                "bytes, llm_c, nano_gpt, megatron (.bin with its .idx), npy, "
                "or auto")
    ->check(
      CLI::IsMember({"auto", "bytes", "llm_c", "megatron", "nano_gpt", "npy"}));
  app
    .add_option("--vocabulary", o.batches.vocabulary,
                "token ids are below this")
    ->check(whole_number(1, 1 << 24));
  app.add_option("--microbatch-size", o.batches.rows, "rows of a microbatch")
    ->check(whole_number(1, 1 << 20));
  app.add_option("--seq", o.batches.length, "tokens of a row")
    ->check(whole_number(1, 1 << 20));
  app
    .add_option("--validation-fraction", o.validation_fraction,
                "end of the text that is held out; 0: none")
    ->check(number(0, 0.9));
  app
    .add_option("--validation-microbatches", o.validation_microbatches,
                "microbatches of a validation, each counted once; 0: all of "
                "the text that is held out")
    ->check(whole_number(0));
  app
    .add_option("--validate-every", o.validate_every,
                "steps between validations; 0: at the end alone")
    ->check(whole_number(0));
  app.add_option("--prefetch", loading.prefetch, "microbatches made ahead")
    ->check(whole_number(1, 1024));
  app
    .add_option("--slow-load", loading.slow_seconds,
                "warn of a microbatch that takes longer, in seconds")
    ->check(number(0));
}

void add_replica_flags(CLI::App& app, partition_options& o) {
  app
    .add_option("--data-parallel", o.data_parallel,
                "replicas D of the pipeline")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--shard", o.shard,
                "what replicas hold shards of: nothing (replicate), gradients "
                "and the optimizer's state (gradients), parameters too (all), "
                "or within groups of replicas (hybrid)")
    ->check(CLI::IsMember({"replicate", "gradients", "all", "hybrid"}))
    ->type_name("WHAT");
  app
    .add_option("--shard-group", o.sharding.group,
                "replicas that share the shards of a stage; 0: all")
    ->check(whole_number(0, 1 << 16));
  app
    .add_option("--shard-multiple", o.sharding.multiple,
                "pad the parameters of a stage to a multiple of shards x so "
                "many elements; a multiple of 32")
    ->check(whole_number(1, largest_shard_multiple));
  app
    .add_option("--shard-whole", o.sharding.most_whole,
                "stages of a rank whose parameters are whole at once; as many "
                "as it has: they stay whole between forward and backward")
    ->check(whole_number(1, 1 << 16));
  app
    .add_option("--divide-gradients", o.division,
                "factors by which gradients of replicas are divided before and "
                "after they are added, as PRE,POST (1,1: the sum), or mean "
                "(1,D) or balanced (near the square root of D twice)")
    ->type_name("HOW");
  app
    .add_option("--reduce-dtype", o.reduce_dtype,
                "add 16-bit gradients of replicas in fp32, or in their own "
                "dtype (same)")
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
                "a compiled plan, as troupe plan --format plan writes it: in "
                "place of --schedule")
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
               "run forwards again in backward, to save memory");
  o.partition.offload.add_to(app);
  app
    .add_option("--weight-split", o.optimisation.weight_split,
                "what an input backward (I) leaves to W: gradients of layers "
                "that support it (layers), or, for any module, of nodes of the "
                "autograd graph (graph)")
    ->check(CLI::IsMember({"automatic", "layers", "graph"}))
    ->type_name("HOW");
  app
    .add_option("--threads", o.execution.intra_op_threads,
                "intra-op threads of a rank")
    ->check(whole_number(1, 1024));
  app.add_flag("--plain", o.plain,
               "the same model in a plain loop, without actors: the oracle");
}

void add_device_flags(CLI::App& app, device_options& o) {
  app.option_defaults()->group("Devices");
  app.add_option("--device", o.device,
                 "cpu, cuda (ranks take all devices in turns, --plain the "
                 "first), or cuda:0,2");
  app
    .add_option(
      "--overlap", o.overlap,
      "what runs beside computing: data,reduce,transfers,pairs (of ops "
      "that overlap),copies (of activations), or all or none; the results "
      "are the same")
    ->type_name("KINDS");
  app.add_flag("--cuda-graphs", o.cuda_graphs,
               "launch all of a step up to its gradients at once, as it was "
               "recorded before: for one GPU, in one process");
  app.add_flag(
    "--deterministic", o.deterministic,
    "equal bits from run to run on a GPU too, which is slower there; "
    "CPUs give them anyway");
}

void add_order_flags(CLI::App& app, order_options& o) {
  app.option_defaults()->group("Order of ops");
  app
    .add_option("--order", o.order,
                "strict: as the schedule has them; ready_first: weight "
                "backwards and updates that can run overtake ops of their rank "
                "that wait; any_ready: all ops. The results are the same")
    ->check(CLI::IsMember({"strict", "ready_first", "any_ready"}))
    ->type_name("ORDER");
  app
    .add_option("--order-log", o.log,
                "the order in which each rank started its ops, a line a rank "
                "and step")
    ->type_name("FILE");
  app
    .add_option(
      "--replay", o.replay,
      "start the ops as an --order-log says, which has at least as many "
      "steps")
    ->type_name("FILE");
  app
    .add_option("--replan-every", o.replan_every,
                "after so many steps look for a better order of the ops, by "
                "the costs that they have had; 0: never. `troupe replan` asks "
                "a live job")
    ->check(whole_number(0))
    ->type_name("N");
  app
    .add_option("--slow", o.slow,
                "a straggler, to try what it does: rank.1=1.5 lets the compute "
                "ops of rank 1 take so much longer")
    ->type_name("ENTRIES");
  app
    .add_option("--slow-from", o.slow_from,
                "the first step that is slowed down")
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
                "fraction of the learning rate that decay ends at")
    ->check(number(0, 1));
  app
    .add_option("--clip", o.numerics.clip,
                "largest gradient norm; 0: no clipping")
    ->check(number(0));
  app
    .add_option("--clip-norm-type", o.optimisation.clip_norm_type,
                "p of the gradients' p-norm, as it is clipped and reported: "
                "1, 2, 3, or inf (the largest value)")
    ->check(CLI::IsMember({"1", "2", "3", "inf"}))
    ->type_name("P");
  app
    .add_option("--autocast", o.optimisation.autocast,
                "compute in bf16 or fp16 where that gains; parameters stay "
                "fp32")
    ->check(CLI::IsMember({"none", "bf16", "fp16"}));
  app
    .add_option("--dtype", o.optimisation.dtype,
                "of parameters, activations and gradients; with bf16 and fp16 "
                "the optimizer updates fp32 copies (masters)")
    ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_flag("--offload-optimizer", o.numerics.offload_optimizer,
               "keep the optimizer's state in host memory and update there, to "
               "save a device's memory");
  app
    .add_option("--buffer-dtype", o.optimisation.buffer_dtype,
                "of the model's buffers; same: that of the parameters")
    ->check(CLI::IsMember({"same", "fp32", "bf16", "fp16"}));
  app
    .add_option("--loss-scale", o.numerics.loss_scale.initial,
                "initial loss scale")
    ->check(number_above(0));
  app.add_flag("--dynamic-loss-scale", o.numerics.loss_scale.dynamic,
               "halve the scale and skip the update on an overflow");
  app
    .add_option("--seed", o.data.batches.seed,
                "of weights, data order and sampling")
    ->check(whole_number(0));
  app.add_flag("--halt-on-nan", o.numerics.halt_on_nan,
               "fail on a loss that is not finite");
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
                 "measured times of ops, for simulate --costs");
  app.add_option("--log-json", o.log_json, "metrics, a JSON line a step");
  app
    .add_option("--monitor", o.monitor,
                "watch the run with NAME or NAME:key=value,...; may be given "
                "several times:\n"
                  + monitor_help())
    ->allow_extra_args(false);
  app
    .add_option("--sink", o.sink,
                "where steps and monitors write their metrics; may be given "
                "several times:\n"
                  + sink_help())
    ->allow_extra_args(false);
  app.add_option("--save-initial", o.save_initial,
                 "write the parameters before the first step (safetensors)");
  app.add_option("--save-parameters", o.save_parameters,
                 "write the parameters after the last step (safetensors)");
  app
    .add_option("--sample", o.sample,
                "tokens to generate at the end: text, or ids where "
                "tokens are no bytes; no more than fit into --seq")
    ->check(whole_number(0));
  app.add_option("--prompt", o.prompt,
                 "what the sample begins with: text, or ids such as "
                 "'5 17'");
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
      "a folder, in which the run is saved: parameters, optimizer and "
      "position, at its end and every --checkpoint-every steps")
    ->type_name("DIR");
  app
    .add_option("--checkpoint-every", o.every,
                "steps between two checkpoints; 0: at the end alone")
    ->check(whole_number(0))
    ->type_name("N");
  app.add_option("--keep", o.kept.last, "checkpoints that are kept, the last")
    ->check(whole_number(1, 1 << 20))
    ->type_name("K");
  app
    .add_option("--keep-every", o.kept.every,
                "keep those of every so many steps, too; 0: none")
    ->check(whole_number(0))
    ->type_name("N");
  app
    .add_option("--resume", o.resume,
                "go on from the last whole checkpoint in --checkpoints, if "
                "there is one (auto), or from this one; ranks, schedule and "
                "replicas may differ")
    ->type_name("auto|DIR");
}

void add_access_flags(CLI::App& app, access_options& o) {
  app.option_defaults()->group("Attaching to it while it runs");
  app
    .add_option("--endpoint", o.endpoint,
                "where others may attach: unix:PATH, tcp:HOST:PORT (port 0: "
                "any) or none; else a socket of your own, which is logged")
    ->default_str(description("the user's own socket"));
  app.add_option(
    "--endpoint-token-file", o.endpoint_token_file,
    "a file with a secret that others must know; for tcp required");
  app.add_option("--dashboard", o.dashboard,
                 "serve a page that shows the run at HOST:PORT, such as "
                 "127.0.0.1:8080 (port 0: any), which is logged");
  app.add_option("--dashboard-token-file", o.dashboard_token_file,
                 "a file with a secret that the page asks for, as a password; "
                 "required unless HOST is this machine's own");
}

}  // namespace

void add_train_flags(CLI::App& app, train_options& options) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_flags(app, options.data, options.execution.loading);
  add_model_flags(app, options.model);
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
               "print all settings as TOML, for --config, and end");
  app.add_flag("--dry-run", options.dry_run,
               "check everything, show the plan, and end");
  app.add_flag("--json", options.json, "with --dry-run: the plan as JSON")
    ->needs("--dry-run");
}

}  // namespace troupe::cli
