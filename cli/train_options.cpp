#include "troupe/cli/train_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
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

void add_data_flags(CLI::App& app, train_options& o) {
  const auto* group = "Data";
  app.add_option("--text", o.text, "text files to train on, read in a row")
    ->group(group);
  app
    .add_option("--text-format", o.text_format,
                "bytes, llm_c, nano_gpt (both .bin), npy, or auto")
    ->check(CLI::IsMember({"auto", "bytes", "llm_c", "nano_gpt", "npy"}))
    ->group(group);
  app.add_option("--vocabulary", o.vocabulary, "token ids are below this")
    ->check(whole_number(1, 1 << 24))
    ->group(group);
  app
    .add_option("--microbatch-size", o.microbatch_size, "rows of a microbatch")
    ->check(whole_number(1, 1 << 20))
    ->group(group);
  app.add_option("--seq", o.seq, "tokens of a row")
    ->check(whole_number(1, 1 << 20))
    ->group(group);
  app
    .add_option("--validation-fraction", o.validation_fraction,
                "end of the text that is held out; 0: none")
    ->check(number(0, 0.9))
    ->group(group);
  app
    .add_option("--validation-microbatches", o.validation_microbatches,
                "microbatches of a validation, rounded up to whole steps")
    ->check(whole_number(1))
    ->group(group);
  app
    .add_option("--validate-every", o.validate_every,
                "steps between validations; 0: at the end alone")
    ->check(whole_number(0))
    ->group(group);
  app.add_option("--prefetch", o.prefetch, "microbatches made ahead")
    ->check(whole_number(1, 1024))
    ->group(group);
  app
    .add_option("--slow-load", o.slow_load,
                "warn of a microbatch that takes longer, in seconds")
    ->check(number(0))
    ->group(group);
}

void add_model_flags(CLI::App& app, train_options& o) {
  const auto* group = "Model";
  app.add_option("--d-model", o.d_model, "width")
    ->check(whole_number(1, 1 << 20))
    ->group(group);
  app.add_option("--layers", o.layers, "transformer blocks")
    ->check(whole_number(1, 1 << 16))
    ->group(group);
  app.add_option("--heads", o.heads, "attention heads")
    ->check(whole_number(1, 1 << 20))
    ->group(group);
  app
    .add_option("--initial", o.initial,
                "start from these parameters (safetensors)")
    ->group(group);
}

void add_pipeline_flags(CLI::App& app, train_options& o) {
  const auto* group = "Pipeline";
  app.add_option("--ranks", o.ranks, "pipeline ranks P")
    ->check(whole_number(1, 1 << 16))
    ->group(group);
  app
    .add_option("--stages-per-rank", o.stages_per_rank,
                "stages V of a rank (interleaved schedules)")
    ->check(whole_number(1, 1 << 16))
    ->group(group);
  app
    .add_option("--data-parallel", o.data_parallel,
                "replicas D of the pipeline")
    ->check(whole_number(1, 1 << 16))
    ->group(group);
  app
    .add_option("--schedule", o.schedule, schedule_names() + ", or a FILE.csv")
    ->group(group);
  app
    .add_option("--plan", o.plan,
                "a compiled plan, as troupe plan --format plan writes it: in "
                "place of --schedule")
    ->excludes("--schedule")
    ->group(group);
  app
    .add_option("--microbatches", o.microbatches,
                "microbatches m of a step and replica")
    ->check(whole_number(1, 1 << 20))
    ->group(group);
  app
    .add_option("--breadth", o.breadth, "microbatches of a group (depth_first)")
    ->check(whole_number(0, 1 << 20))
    ->group(group);
  app
    .add_option("--split", o.split,
                "layers on stages: blocks spread evenly (even), by parameters, "
                "measured, or by hand: 5,5. The layers are the embeddings, "
                "the blocks and the head")
    ->group(group);
  app
    .add_flag("--recompute", o.recompute,
              "run forwards again in backward, to save memory")
    ->group(group);
  app.add_option("--threads", o.threads, "intra-op threads of a rank")
    ->check(whole_number(1, 1024))
    ->group(group);
  app
    .add_flag("--plain", o.plain,
              "the same model in a plain loop, without actors: the oracle")
    ->group(group);
}

void add_device_flags(CLI::App& app, train_options& o) {
  const auto* group = "Devices";
  app
    .add_option("--device", o.device,
                "cpu, cuda (ranks take all devices in turns, --plain the "
                "first), or cuda:0,2")
    ->group(group);
  app
    .add_option("--overlap", o.overlap,
                "what runs beside computing: data,reduce,transfers, or all or "
                "none; the results are the same")
    ->type_name("KINDS")
    ->group(group);
  app
    .add_flag("--ready-first", o.ready_first,
              "ops that can run overtake those of their rank that wait; the "
              "results are the same")
    ->group(group);
  app
    .add_flag("--cuda-graphs", o.cuda_graphs,
              "launch all of a step up to its gradients at once, as it was "
              "recorded before: for one GPU, in one process")
    ->group(group);
  app
    .add_flag("--deterministic", o.deterministic,
              "equal bits from run to run on a GPU too, which is slower there; "
              "CPUs give them anyway")
    ->group(group);
}

void add_optimisation_flags(CLI::App& app, train_options& o) {
  const auto* group = "Optimisation";
  app.add_option("--steps", o.steps, "optimizer updates")
    ->check(whole_number(0))
    ->group(group);
  app.add_option("--optimizer", o.optimizer, "adamw or sgd")
    ->check(CLI::IsMember({"adamw", "sgd"}))
    ->group(group);
  app.add_option("--lr", o.lr, "learning rate; adamw 3e-4, sgd 0.05")
    ->default_str(description("the optimizer's"))
    ->check(number(0))
    ->group(group);
  app.add_option("--momentum", o.momentum, "of sgd")
    ->check(number(0))
    ->group(group);
  app.add_option("--weight-decay", o.weight_decay, "adamw 0.01, sgd 0")
    ->default_str(description("the optimizer's"))
    ->check(number(0))
    ->group(group);
  app.add_option("--warmup", o.warmup, "steps of linear warm-up")
    ->check(whole_number(0))
    ->group(group);
  app.add_option("--decay", o.decay, "of the learning rate")
    ->check(CLI::IsMember({"constant", "cosine", "linear"}))
    ->group(group);
  app
    .add_option("--final-lr", o.final_lr,
                "fraction of the learning rate that decay ends at")
    ->check(number(0, 1))
    ->group(group);
  app.add_option("--clip", o.clip, "largest gradient norm; 0: no clipping")
    ->check(number(0))
    ->group(group);
  app
    .add_option("--autocast", o.autocast,
                "compute in bf16 or fp16 where that gains; parameters stay "
                "fp32")
    ->check(CLI::IsMember({"none", "bf16", "fp16"}))
    ->group(group);
  app.add_option("--loss-scale", o.loss_scale, "initial loss scale")
    ->check(number_above(0))
    ->group(group);
  app
    .add_flag("--dynamic-loss-scale", o.dynamic_loss_scale,
              "halve the scale and skip the update on an overflow")
    ->group(group);
  app.add_option("--seed", o.seed, "of weights, data order and sampling")
    ->check(whole_number(0))
    ->group(group);
  app
    .add_flag("--halt-on-nan", o.halt_on_nan,
              "fail on a loss that is not finite")
    ->group(group);
}

void add_output_flags(CLI::App& app, train_options& o) {
  const auto* group = "Output";
  app.add_option("--log-level", o.log_level, "of messages on stderr")
    ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
    ->group(group);
  app
    .add_option("--trace", o.trace,
                "Chrome/Perfetto trace of the last steps (JSON)")
    ->group(group);
  app
    .add_option("--timeline", o.timeline,
                "picture of the last step's timeline (SVG)")
    ->group(group);
  app.add_option("--log-json", o.log_json, "metrics, a JSON line a step")
    ->group(group);
  app
    .add_option("--monitor", o.monitor,
                "watch the run with NAME or NAME:key=value,...; may be given "
                "several times:\n"
                  + monitor_help())
    ->allow_extra_args(false)
    ->group(group);
  app
    .add_option("--sink", o.sink,
                "where steps and monitors write their metrics; may be given "
                "several times:\n"
                  + sink_help())
    ->allow_extra_args(false)
    ->group(group);
  app
    .add_option("--save-initial", o.save_initial,
                "write the parameters before the first step (safetensors)")
    ->group(group);
  app
    .add_option("--save-parameters", o.save_parameters,
                "write the parameters after the last step (safetensors)")
    ->group(group);
  app
    .add_option("--sample", o.sample,
                "tokens to sample at the end: text, or ids where "
                "tokens are no bytes")
    ->check(whole_number(0))
    ->group(group);
  app
    .add_option("--prompt", o.prompt,
                "what the sample begins with: text, or ids such as "
                "'5 17'")
    ->group(group);
  app
    .add_option("--temperature", o.temperature,
                "of sampling; 0: the most likely byte")
    ->check(number(0))
    ->group(group);
  app.add_flag("--print-config", o.print_config,
               "print all settings as TOML, for --config, and end");
  app.add_flag("--dry-run", o.dry_run,
               "check everything, show the plan, and end");
}

void add_endpoint_flags(CLI::App& app, train_options& o) {
  const auto* group = "Attaching to it while it runs";
  app
    .add_option("--endpoint", o.endpoint,
                "where others may attach: unix:PATH, tcp:HOST:PORT (port 0: "
                "any) or none; else a socket of your own, which is logged")
    ->default_str(description("the user's own socket"))
    ->group(group);
  app
    .add_option("--endpoint-token-file", o.endpoint_token_file,
                "a file with a secret that others must know; for tcp required")
    ->group(group);
  app
    .add_option("--dashboard", o.dashboard,
                "serve a page that shows the run at HOST:PORT, such as "
                "127.0.0.1:8080 (port 0: any), which is logged")
    ->group(group);
  app
    .add_option("--dashboard-token-file", o.dashboard_token_file,
                "a file with a secret that the page asks for, as a password; "
                "required unless HOST is this machine's own")
    ->group(group);
}

void add_job_flags(CLI::App& app, train_options& o) {
  const auto* group = "Several processes (RANK and WORLD_SIZE are read)";
  app
    .add_option("--rendezvous", o.rendezvous,
                "where process 0 is met: HOST:PORT or unix:PATH; else as the "
                "launcher says, or on one machine in a folder of your own")
    ->default_str(description("the launcher's"))
    ->group(group);
  app
    .add_option("--listen", o.listen,
                "where this process takes the others' tensors: HOST:PORT, over "
                "TCP; else its address towards process 0, at any port")
    ->default_str(description("its address towards process 0, any port"))
    ->group(group);
  app
    .add_option("--announce", o.announce,
                "where the others reach --listen, if elsewhere: HOST:PORT of a "
                "relay, or of a container's machine")
    ->default_str(description("where it listens"))
    ->group(group);
  app
    .add_option("--link", o.link,
                "how tensors travel between processes of one machine: socket, "
                "shared (memory), or auto")
    ->check(CLI::IsMember({"auto", "socket", "shared"}))
    ->group(group);
  app
    .add_option("--job-token-file", o.job_token_file,
                "a file with the job's secret; over TCP this or --certificates "
                "is required")
    ->group(group);
  app
    .add_option("--certificates", o.certificates,
                "the folder of `troupe certificates`, for TLS between machines")
    ->group(group);
  app
    .add_flag("--insecure", o.insecure,
              "plain text, and whoever comes is let in: for networks of your "
              "own alone")
    ->group(group);
  app
    .add_option("--patience", o.patience,
                "seconds for all processes to come together")
    ->check(number_above(0, 1e6))
    ->group(group);
}

}  // namespace

void add_train_flags(CLI::App& app, train_options& options) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_flags(app, options);
  add_model_flags(app, options);
  add_pipeline_flags(app, options);
  add_device_flags(app, options);
  add_optimisation_flags(app, options);
  add_output_flags(app, options);
  add_endpoint_flags(app, options);
  add_job_flags(app, options);
}

}  // namespace troupe::cli
