#include "troupe/cli/train/train_options.hpp"

#include <CLI/CLI.hpp>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/optimisation_flags.hpp"
#include "troupe/cli/train/pipeline_flags.hpp"
#include "troupe/cli/train/train_healing.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"

namespace troupe::cli {

namespace {

void add_data_flags(CLI::App& app, data_options& o, loading_options& loading) {
  app.option_defaults()->group("Data: texts, their mix and format, validation");
  app.add_option("--text", o.text,
                 "text files to train on: concatenated, or mixed by --mix");
  add_value(app, "--mix WEIGHTS", o.mix,
            "mix rows of the texts by these weights, one per text: 0.7,0.3",
            number_above(0))
    ->delimiter(',');
  add_value(
    app, "--loss-mask FILES", o.loss_mask,
    "for each text a file of as many numbers as it has tokens: 1 if the token "
    "counts in the loss, 0 if not, as a prompt's (scripts/tokenize writes it)");
  add_choice(
    app, "--text-format", o.format,
    {{"auto", std::nullopt},
     {"bytes", token_format::bytes},
     {"llm_c", token_format::llm_c},
     {"megatron", token_format::megatron},
     {"nano_gpt", token_format::nano_gpt},
     {"npy", token_format::npy}},
    "bytes, llm_c, nano_gpt, megatron (.bin with its .idx), npy, or auto");
  add_value(app, "--vocabulary", o.batches.vocabulary, "number of token ids",
            whole_number(1, 1 << 24));
  add_value(app, "--microbatch-size", o.batches.rows, "rows of a microbatch",
            whole_number(1, 1 << 20));
  add_value(app, "--seq", o.batches.length, "tokens of a row",
            whole_number(1, 1 << 20));
  add_value(app, "--validation-fraction", o.validation_fraction,
            "share of the text, at its end, held out for validation; 0: none",
            number(0, 0.9));
  add_value(
    app, "--validation-microbatches", o.validation_microbatches,
    "microbatches per validation, each counted once; 0: all held-out text",
    whole_number(0));
  add_value(app, "--eval-every", o.eval_every,
            "steps between validations; 0: only at the end", whole_number(0));
  add_value(app, "--prefetch", loading.prefetch, "microbatches loaded ahead",
            whole_number(1, 1024));
  add_value(app, "--slow-load", loading.slow_seconds,
            "warn if loading a microbatch takes longer, in seconds", number(0));
}

void add_folder_flags(CLI::App& app, train_options& options) {
  auto& model = options.model;
  auto& output = options.output;
  app.option_defaults()->group(
    "Model: a folder of Hugging Face's transformers");
  app.add_flag("--from-scratch", model.from_scratch,
               "a --model that is a folder begins with fresh parameters: its "
               "config.json is all that is read");
  add_value(app, "--loss-positions", model.choices.loss_positions,
            "positions whose logits are made at once, for the loss of a "
            "--model that is a folder; 0: of 8 M logits, on a GPU 64 M",
            whole_number(0));
  add_value(app, "--lora-rank", model.choices.lora.rank,
            "train low-rank adapters of this rank alone, for a --model that is "
            "a folder; 0: none",
            whole_number(0, 1 << 16));
  add_value(app, "--lora-alpha", model.choices.lora.alpha,
            "adapters are multiplied by this over their rank", number_above(0));
  add_value(app, "--lora-dropout", model.choices.lora.dropout,
            "probability with which values that adapters read are set to 0 in "
            "training",
            number(0, 1));
  add_value(app, "--lora-modules GLOBS", model.choices.lora.modules,
            "modules that get adapters: globs of names or their last parts, "
            "joined by commas");
  add_value(app, "--save-model DIR", output.save_model,
            "write the model after the last step as a folder of Hugging Face's "
            "transformers; for a --model that was one");
  add_choice(app, "--save-dtype", output.save_dtype, dtype_choices("same"),
             "of --save-model: same as in --model, fp32, bf16 or fp16");
  add_value(app, "--max-shard-size", output.shard_bytes,
            "most bytes of a file of --save-model, such as 5GB")
    ->transform(CLI::AsSizeValue(true))
    ->check(whole_number(1));
  add_value(app, "--save-adapter DIR", output.save_adapter,
            "write the adapters of --lora-rank after the last step as a folder "
            "of Hugging Face's PEFT");
  add_value(app, "--document-end", options.data.document_end,
            "id of the token that ends a document: tokens attend to those of "
            "their own document only, learned positions restart, and what "
            "follows it is not predicted; -1: none",
            whole_number(-1));
  app.add_flag("--predict-next-document", options.data.predicts_next_document,
               "also train the token of --document-end to predict the next "
               "document's first token");
  app.option_defaults()->group(model_group);
}

void add_device_flags(CLI::App& app, device_options& o) {
  app.option_defaults()->group("Devices: CPU or GPUs, and what overlaps there");
  app.add_option("--device", o.device,
                 "cpu, cuda (ranks take all devices in turns, --plain the "
                 "first), or cuda:0,2");
  add_value(
    app, "--overlap KINDS", o.overlap,
    "what overlaps with compute: data,reduce,transfers,pairs (of overlapped "
    "ops),copies (of activations), all or none; results do not change");
  app.add_flag("--cuda-graphs", o.cuda_graphs,
               "launch a recorded step, up to its gradients, at once; for one "
               "GPU and one process");
  app.add_flag("--deterministic", o.deterministic,
               "bitwise reproducible runs on a GPU as well, which is slower; "
               "CPU runs always are");
}

void add_monitoring_flags(CLI::App& app, monitoring_options& o) {
  app.add_option("--trace", o.trace,
                 "Chrome/Perfetto trace of the last steps (JSON)");
  app.add_option("--timeline", o.timeline,
                 "picture of the last step's timeline (SVG)");
  app.add_option("--costs-out", o.costs,
                 "write measured costs of ops, for simulate --costs");
  app.add_option("--log-json", o.metrics,
                 "write metrics, one JSON line per step; a resumed run "
                 "appends to the file");
  add_value(app, "--monitor", o.monitors,
            "attach a monitor: NAME or NAME:key=value,...; repeatable:\n"
              + monitor_help())
    ->allow_extra_args(false);
  add_value(
    app, "--sink", o.sinks,
    "where steps and monitors write their metrics; repeatable:\n" + sink_help())
    ->allow_extra_args(false);
}

void add_output_flags(CLI::App& app, train_options& options) {
  auto& o = options.output;
  app.option_defaults()->group(
    "Output: logs, traces, monitors, parameters, a sample");
  add_log_level(app, o);
  add_monitoring_flags(app, options.monitoring);
  app.add_option(
    "--profile", o.profile,
    "Chrome/Perfetto trace (JSON) of the ops, LibTorch's operators "
    "and GPU kernels of some steps, by LibTorch's profiler; process "
    "N of a job writes its own, FILE with .N before its extension");
  add_value(app, "--profile-from", o.profile_from,
            "first step of --profile, counted from 1 in this run",
            whole_number(1));
  add_value(app, "--profile-steps", o.profile_steps, "steps in --profile",
            whole_number(1));
  app.add_option("--save-initial", o.save_initial,
                 "write the parameters before the first step (safetensors)");
  app.add_option("--save-parameters", o.save_parameters,
                 "write the parameters after the last step (safetensors)");
  add_value(app, "--sample", o.sample,
            "tokens to generate at the end, at most --seq with the prompt: "
            "text, or ids if tokens are not bytes",
            whole_number(0));
  app.add_option("--prompt", o.prompt,
                 "prompt of the sample: text, or ids such as '5 17'");
  add_value(app, "--temperature", o.sampling.temperature,
            "of sampling; 0: the most likely byte", number(0));
}

void add_checkpoint_flags(CLI::App& app, checkpoint_options& o) {
  app.option_defaults()->group("Checkpoints: saving a run and resuming it");
  add_value(app, "--checkpoints DIR", o.folder,
            "folder for checkpoints (parameters, optimizer and data position), "
            "written at the end and every --checkpoint-every steps");
  add_value(app, "--checkpoint-every N", o.every,
            "steps between checkpoints; 0: only at the end", whole_number(0));
  add_value(app, "--keep K", o.kept.last,
            "number of latest checkpoints to keep", whole_number(1, 1 << 20));
  add_value(app, "--keep-every N", o.kept.every,
            "also keep checkpoints of every N-th step; 0: none",
            whole_number(0));
  add_value(
    app, "--resume auto|DIR", o.resume,
    "resume from the last intact checkpoint in --checkpoints, if any (auto), "
    "or from this one; ranks, schedule and replicas may differ");
  add_value(
    app, "--grace", o.grace,
    "seconds from a signal to the end of the process: a step that takes "
    "more than two thirds of them is given up, and the step before it "
    "is saved; by default what the launcher grants, or 30",
    number_above(0, 1e6))
    ->default_val(granted_grace().value_or(usual_grace));
}

void add_access_flags(CLI::App& app, access_options& o) {
  app.option_defaults()->group(
    "Attaching: the endpoint and the dashboard of the running job");
  add_value(app, "--endpoint", o.endpoint,
            "where clients attach: unix:PATH, tcp:HOST:PORT (port 0: any) or "
            "none; by default a private socket, which is logged")
    ->default_str(description("the user's own socket"));
  app.add_option("--endpoint-token-file", o.endpoint_token_file,
                 "file with a secret of clients that may watch the run");
  app.add_option("--endpoint-control-token-file", o.endpoint_control_token_file,
                 "file with another secret, of clients that may also control "
                 "it; tcp requires one of the two");
  app.add_option("--attach-folder", o.attach_folder,
                 "folder where monitors that clients attach write their files; "
                 "by default they can't");
  app.add_option("--dashboard", o.dashboard,
                 "serve a page that shows the run: at PORT of this machine, "
                 "such as 8080 (0: any), or at HOST:PORT; the address is "
                 "logged");
  app.add_option("--dashboard-token-file", o.dashboard_token_file,
                 "file with a password for the page; required unless HOST is a "
                 "loopback address");
  app.add_option(
    "--dashboard-save", o.dashboard_save,
    "write the page of --dashboard to this HTML file when the run ends");
  app.add_option("--run-name", o.run_name,
                 "name of the run on the page of --dashboard and in the "
                 "browser's tab; by default that of the --checkpoints folder, "
                 "or of the current one");
}

}  // namespace

void add_train_flags(CLI::App& app, train_options& options) {
  app.option_defaults()->always_capture_default();
  add_data_flags(app, options.data, options.execution.loading);
  add_model_flags(app, options.model);
  add_folder_flags(app, options);
  app.add_option("--initial", options.model.initial,
                 "start from these parameters (safetensors)");
  add_pipeline_flags(app, options);
  add_replica_flags(app, options);
  add_device_flags(app, options.devices);
  add_order_flags(app, options);
  add_optimisation_flags(app, options);
  add_output_flags(app, options);
  add_checkpoint_flags(app, options.checkpoints);
  add_access_flags(app, options.access);
  add_process_flags(app, options.processes);
  add_healing_flags(app, options.healing);
  app.option_defaults()->group("Options");  // CLI11's group of --help
  app.add_flag("--print-config", options.print_config,
               "print all settings that have an effect as TOML, for --config, "
               "and exit");
  app.add_flag("--dry-run", options.dry_run,
               "check everything, show the plan, and with --heal the memory "
               "of copies, and exit");
  app.add_flag("--json", options.json, "with --dry-run: the plan as JSON")
    ->needs("--dry-run");
}

void add_log_level(CLI::App& app, output_options& o) {
  using namespace spdlog::level;
  add_choice(app, "--log-level", o.log_level,
             {{"debug", debug},
              {"info", info},
              {"warn", warn},
              {"error", err},
              {"off", off}},
             "of messages on stderr");
}

void add_process_flags(CLI::App& app, process_options& o) {
  app.option_defaults()->group(
    "Processes: several that form a job; RANK and WORLD_SIZE are read");
  add_value(app, "--rendezvous", o.joining.rendezvous,
            "address of process 0: HOST:PORT or unix:PATH; by default from the "
            "launcher, or on one machine a private folder")
    ->default_str(description("the launcher's"));
  add_value(app, "--listen", o.joining.listens,
            "where this process receives tensors: HOST:PORT, over TCP; by "
            "default its address towards process 0, any port")
    ->default_str(description("its address towards process 0, any port"));
  add_value(app, "--announce", o.joining.announced,
            "address under which others reach --listen, if different: "
            "HOST:PORT of a relay, or of a container's host")
    ->default_str(description("where it listens"));
  add_choice(app, "--link", o.link,
             {{"auto", line_kind::socket},
              {"socket", line_kind::socket},
              {"shared", line_kind::shared_memory}},
             "transport between processes of one machine: socket, shared "
             "(memory), or auto");
  add_value(
    app, "--hosting PROCESSES", o.hosting,
    "the process that hosts each rank: of the ranks of the first "
    "replica, then of the second: 0,0,0,1; by default in order, equally "
    "many each, the first ones one more if need be",
    whole_number(0, 1 << 16))
    ->delimiter(',');
  add_trust_flags(app, o.trust);
  add_value(app, "--patience", o.patience,
            "seconds to wait for all processes at the start, and for the "
            "address of the first one's host",
            number_above(0, 1e6));
}

}  // namespace troupe::cli
