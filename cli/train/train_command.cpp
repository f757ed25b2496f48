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
#include "troupe/cli/train/train_healing.hpp"
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

/// Meets the other processes. Null unless the job heals.
std::shared_ptr<job_membership> meet(const CLI::App& command,
                                     const train_options& options,
                                     train_setup& setup,
                                     signal_watch& signals) {
  if (!has_authority(options.healing)) {
    setup.trainer.job = join_job(command, options, signals);
    return nullptr;
  }
  signals.defer_signals();  // so that sockets are removed
  auto joining = joining_of(command, options, signals);
  // After a signal, a loss is worth some of the grace time: the run then ends
  // with the states of a whole step.
  joining.stopped = [&signals, &setup] {
    const auto since = signals.since_end();
    return signals.exit_code() != 0
           && (setup.epoch == 0 || (since && *since > std::chrono::seconds(5)));
  };
  auto membership = join_healing_job(std::move(joining), options, setup);
  signals.on_end({});
  return membership;
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
  require_healing(options);
  if (!options.plain)
    require_legal(setup.trainer);
  log_shared_cores(options, setup);
  if (options.dry_run) {
    require_model(options, setup);
    return shows ? print_plan_summary(options, setup) : void();
  }
  try {
    const auto membership = meet(command, options, setup, signals);
    if (leads_job(setup.trainer.job))
      print_start_summary(options, setup);
    options.plain ? train_plain(options, setup, signals)
                  : train_pipeline(options, setup, signals, membership);
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
