#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "troupe/actors/trainer_checks.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/log_listener.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/dependent_flags.hpp"
#include "troupe/cli/train/resumed_settings.hpp"
#include "troupe/cli/train/run_endings.hpp"
#include "troupe/cli/train/run_summary.hpp"
#include "troupe/cli/train/shared_cores.hpp"
#include "troupe/cli/train/train_checkpoints.hpp"
#include "troupe/cli/train/train_output.hpp"
#include "troupe/cli/train/train_servers.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/monitors/live/replanner.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

constexpr auto example = R"(
Examples:
  troupe train --text book.txt --ranks 2 --schedule 1f1b --dashboard 8080
  troupe train --text book.txt --ranks 2 --schedule 1f1b --microbatches 8 \
    --steps 200 --timeline step.svg --sample 200

A CSV schedule or a plan brings its own ranks, stages and microbatches.
Exit codes: 0 done, or ended early by a monitor as a success; 1 the run failed;
2 wrong usage; 129 / 130 / 140 / 143 stopped by SIGHUP / SIGINT / SIGUSR2 /
SIGTERM: after the step that runs, and what is asked for is saved. SIGUSR1 saves
a checkpoint, and the run goes on.)";

/// What the steps of a run are seen by.
struct step_watches {
  loss_watch losses;
  run_tally tally{};
};

void run_steps(trainer& run, const train_options& options,
               const train_setup& setup, step_watches& watches,
               trainer_saver& saved) {
  const auto done = run.progress().step;
  const auto left = saved.steps_left(options.steps);
  // All processes gather sharded parameters for the log, or none does.
  const bool logs = logs_tensors(setup.trainer.job);
  if (logs)
    log_tensors(done, run.parameters());
  for (const auto& step : run.train(setup.training, left)) {
    watches.losses.see(step);
    watches.tally.see(step);
    if (logs)
      log_tensors(step.source.step, run.parameters());
    saved.after_step();
    if (!run.ended() && validates_at(options, setup, step.source.step))
      run.evaluate(setup.validation, setup.validation_microbatches);
  }
}

/// A run's outputs for users; in a job, process 0 provides them.
class shown_run {
 public:
  shown_run(trainer& run, const train_options& options,
            const train_setup& setup) {
    if (!leads_job(setup.trainer.job))
      return;
    const auto site = make_site(options.access);
    page_ = open_dashboard(run, options, setup, site);
    if (page_)
      log_.emplace(
        [page = page_.get()](const char* kind, const std::string& text) {
          page->add_warning(kind, text);
        });
    auto monitoring = options.monitoring;
    monitoring.progress = progress_to(options);
    attach_monitors(run, monitoring, page_.get(), site);
    if (can_replan(run)) {
      orders_.emplace(run, options.order.replan_every);
      run.attach(orders_->watch());
    }
    endpoint_ =
      open_endpoint(run, options, orders_ ? &*orders_ : nullptr, site);
  }
  shown_run(const shown_run&) = delete;
  shown_run& operator=(const shown_run&) = delete;
  /// Shows on the page why the run failed.
  void add_error(const std::string& text) const {
    if (page_)
      page_->add_warning("error", text);
  }
  /// The endpoint answers all requests before it closes; a replan that waits
  /// for steps is refused.
  ~shown_run() {
    if (orders_)
      orders_->end();
  }

 private:
  std::unique_ptr<dashboard> page_;
  std::optional<log_listener> log_;  // shows the log on the page
  std::optional<replanner> orders_;
  std::unique_ptr<job_server> endpoint_;
};

/// Runs all steps, or until a signal or a monitor ends the run.
void run_to_end(trainer& run, const train_options& options,
                const train_setup& setup, signal_watch& signals,
                step_watches& watches, trainer_saver& saved) {
  const auto limit =
    std::chrono::duration<double>(step_time_after_signal(options)).count();
  signals.on_end([&run, limit](const signal_request& request) {
    run.stop(request.name, request.hurries ? limit : 0);
    return fmt::format(
      "{}: the run stops after this step; a second signal stops it at once",
      request.name);
  });
  signals.on_save([&run, &options](const signal_request& request) {
    run.request_save();
    return answer_to_save(options, request);
  });
  if (signals.exit_code() != 0)  // received before the handler was set
    run.stop(signals.name(), limit);
  try {
    run_steps(run, options, setup, watches, saved);
  } catch (const error& reason) {
    signals.defer_signals();
    const auto end = run.ended();
    if (end && end->reason == reason.what())  // ended after its last step
      return;
    end_failed_run(run, options, setup, reason, signals, saved.saver());
  } catch (...) {
    signals.defer_signals();
    finish_after_failure(run);
    throw;
  }
  signals.defer_signals();
}

/// Checked before the first step, so that a log that ends early loses no step.
void require_replay(const trainer& run, const train_options& options,
                    const train_setup& setup) {
  const auto& log = setup.trainer.execution.replay;
  for (std::int64_t step = 1; log && step <= options.steps; ++step)
    log->orders_of(run.plan(), setup.trainer.data_parallel, step);
}

/// Saves the trained parameters, and lets monitors finish. Throws unless the
/// run is a success.
void save_and_finish(trainer& run, const train_options& options,
                     const train_setup& setup, const signal_watch& signals,
                     const loss_watch& losses, trainer_saver& saved) {
  saved.after_step(true);
  // Saves first, as a failing picture must not lose the parameters.
  save_all(options.output.save_parameters, run, setup);
  if (!options.output.save_model.empty()
      || !options.output.save_adapter.empty())
    save_model(options, run.gather_parameters(), setup);
  saved.saver().finish();
  const bool shows = leads_job(setup.trainer.job);
  if (shows)
    losses.conclude(options.output.save_parameters);
  conclude_early(run, options, setup, signals, saved.saver());
  if (const auto parameter = run.not_finite(); shows)
    losses.require_finite(parameter);
  else if (!parameter.empty())
    throw process_end({}, exit_code(error_code::op_failed));
  run.finish_monitors();
}

void train_pipeline(const train_options& options, const train_setup& setup,
                    signal_watch& signals) {
  trainer run(setup.model.layers, setup.trainer);
  signals.defer_signals();
  if (options.output.sample > 0)
    run.require_generation();
  if (!options.model.initial.empty())
    run.load(read_safetensors(options.model.initial), options.model.initial);
  save_all(options.output.save_initial, run, setup);
  signals.require_none("the start; nothing is saved");
  require_replay(run, options, setup);
  const auto last_silence = milliseconds_of(options.checkpoints.grace * 5 / 6);
  trainer_saver saved(
    run,
    saving_options_of(
      options, {.last_silence = last_silence,
                .is_stopping = [&] { return signals.exit_code() != 0; }}),
    resume_options_of(options), about_run(options, setup));
  const bool shows = leads_job(setup.trainer.job);
  if (const auto parameter = run.not_finite(); shows)
    warn_unless_finite(parameter);
  const shown_run shown(run, options, setup);
  step_watches watches{loss_watch(setup.trainer.numerics)};
  run_to_end(run, options, setup, signals, watches, saved);
  try {
    save_and_finish(run, options, setup, signals, watches.losses, saved);
  } catch (const error& reason) {
    shown.add_error(reason.what());
    finish_after_failure(run);
    if (signals.exit_code() == 0 || !shows)
      throw;
    print_error_line(fmt::format("error: {}", reason.what()));
    throw process_end(summary_of(options, saved.saver(), run.progress().step),
                      exit_code(reason.code()));
  }
  if (shows)
    print_end_summary(options, watches.tally);
  print_sample(options, shows, [&](const sample_request& what) {
    const auto on_token = [&](std::size_t, const generated&) {
      signals.require_none("sampling");
    };
    return run.generate({what.request}, what.options, on_token).at(0);
  });
  end_together(setup.trainer.job);
}

void require_actors(const train_options& o) {
  if (!o.monitoring.trace.empty() || !o.monitoring.timeline.empty()
      || !o.monitoring.costs.empty() || !o.monitoring.monitors.empty()
      || !o.monitoring.sinks.empty())
    fail(error_code::invalid_argument,
         "--plain runs no actors, so it has nothing for --trace, --timeline, "
         "--costs-out, --monitor or --sink; omit them");
  if (!o.monitoring.order_log.empty() || !o.order.replay.empty()
      || !o.order.slow.empty() || o.order.replan_every > 0)
    fail(error_code::invalid_argument,
         "--plain runs one op after the other, so it has nothing for "
         "--order-log, --replay, --replan-every or --slow; omit them");
  if (!o.access.dashboard.empty())
    fail(error_code::invalid_argument,
         "--plain runs no actors, so --dashboard has nothing to show; omit it");
  if (!o.access.endpoint.empty() && o.access.endpoint != "none")
    fail(error_code::invalid_argument,
         "--plain runs no actors, so there is nothing to attach to; omit "
         "--endpoint");
}

void train(const CLI::App& command, train_options options) {
  fit_model_and_data(command, options);
  const bool shows = prints_common_output();
  if (options.print_config) {
    if (shows)
      fmt::print("{}", config_text(command, moot_flags(options)));
    return;
  }
  if (!options.dry_run)
    drop_closed_output();
  const auto level = options.output.log_level;
  spdlog::set_level(shows ? level : std::max(level, spdlog::level::err));
  if (options.plain)
    require_actors(options);
  require_effects(command, options);
  warn_of_idle_flags(command, options);
  if (const auto granted = granted_grace();
      granted && options.checkpoints.grace > *granted)
    spdlog::warn(
      "--grace {}: the launcher ends this process {} s after a signal; give "
      "--grace to `troupe launch`",
      options.checkpoints.grace, *granted);
  signal_watch signals(watched_signals::with_notices);
  auto devices = open_devices(options.devices, options.plain);
  prepare_compute_thread(options.execution.intra_op_threads);
  auto setup = make_setup(options);
  setup.flags = flags_of_updates(command);
  for (auto& [name, value] : flag_values(command, moot_flags(options)))
    options.monitoring.settings.push_back({name, std::move(value)});
  if (const auto file = sizes_file(options.partition); !file.empty())
    require_sizes_of_file(command, file, setup.trainer.schedule);
  setup.trainer.devices = std::move(devices);
  require_outputs(options);
  require_legal(options.monitoring);
  require_dashboard(options.access);
  require_endpoint(options.access);
  require_job(options);
  if (!options.plain)
    require_legal(setup.trainer);
  log_shared_cores(options, setup);
  if (options.dry_run) {
    require_model(options, setup);
    return shows ? print_plan_summary(options, setup) : void();
  }
  try {
    setup.trainer.job = join_job(command, options, signals);
    if (shows)
      print_start_summary(options, setup);
    if (options.plain)
      train_plain(options, setup, signals);
    else
      train_pipeline(options, setup, signals);
  } catch (const error& reason) {
    if (reason.code() != error_code::interrupted || signals.exit_code() == 0)
      throw;
    signals.end_process(reason.what());
  }
  if (signals.exit_code() != 0)
    signals.end_process("stopped by a signal after the last step");
}

}  // namespace

void add_train_command(CLI::App* command) {
  auto options = std::make_shared<train_options>();
  add_train_flags(*command, *options);
  command->add_option("--config", options->config,
                      "settings from a TOML file; its keys are "
                      "the long flags, which override it");
  command->footer(example);
  command->callback([command, options] { train(*command, *options); });
}

}  // namespace troupe::cli
