// The steps of a run, in the epochs of its job.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "troupe/actors/copy_footprint.hpp"
#include "troupe/actors/job/job_members.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/cli/log_listener.hpp"
#include "troupe/cli/train/run_endings.hpp"
#include "troupe/cli/train/run_summary.hpp"
#include "troupe/cli/train/train_checkpoints.hpp"
#include "troupe/cli/train/train_healing.hpp"
#include "troupe/cli/train/train_output.hpp"
#include "troupe/cli/train/train_profile.hpp"
#include "troupe/cli/train/train_servers.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/monitors/live/rebalancer.hpp"
#include "troupe/monitors/live/replanner.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"
#include "troupe/training/step_profile.hpp"

namespace troupe::cli {

namespace {

/// What the steps of a run are seen by.
struct step_watches {
  loss_watch losses;
  run_tally tally{};
  std::unique_ptr<step_profile> profile{};  // null: none
  std::int64_t last = 0;

  /// A step that is repeated is seen once.
  void see(const step_event& step) {
    if (step.source.step <= last)
      return;
    last = step.source.step;
    losses.see(step);
    tally.see(step);
  }
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
  if (run.recovered() && !run.ended() && run.evaluated_after() < done
      && validates_at(options, setup, done))
    run.evaluate(setup.validation, setup.validation_microbatches);
  const auto& profile = watches.profile;
  if (profile && left > 0)
    profile->before_step();
  for (const auto& step : run.train(setup.training, left)) {
    const bool is_last = run.ended() || step.source.step >= done + left;
    if (profile)
      profile->after_step(is_last);
    watches.see(step);
    if (logs)
      log_tensors(step.source.step, run.parameters());
    saved.after_step();
    if (!run.ended() && validates_at(options, setup, step.source.step))
      run.evaluate(setup.validation, setup.validation_microbatches);
    if (profile && !is_last)
      profile->before_step();
  }
  if (profile)
    profile->finish();
}

/// A run's outputs for users; in a job, process 0 provides them.
class shown_run {
 public:
  shown_run(trainer& run, const train_options& options,
            const train_setup& setup,
            const std::shared_ptr<job_membership>& membership) {
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
    if (options.healing.rebalances && membership)
      run.attach(rebalancing_monitor(
        run, {.steps = options.steps,
              .state_bytes = state_bytes(setup.model.layers, setup.trainer)}));
    endpoint_ = open_endpoint(run, options, orders_ ? &*orders_ : nullptr, site,
                              membership);
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

/// What is made anew when the processes of the job have met: all of them make
/// the same calls, whether they were there before or not.
struct run_epoch {
  trainer& run;
  const train_options& options;
  const train_setup& setup;
  signal_watch& signals;
  const std::shared_ptr<job_membership>& membership;  // null: none
  std::optional<shown_run>& shown;                    // in the leading process
  std::unique_ptr<trainer_saver> saved{};
};

/// Closes the files of a process that does not lead the job any more.
void stop_showing(trainer& run, std::optional<shown_run>& shown) {
  if (!shown)
    return;
  finish_after_failure(run);
  shown.reset();
}

/// After a call of the run that has thrown: whether the job goes on, with
/// processes that have met again.
bool goes_on(run_epoch& epoch, const error& reason) {
  const bool is_ended =
    reason.code() == error_code::interrupted && epoch.signals.exit_code() != 0;
  if (is_ended || !epoch.run.can_heal(reason))
    return false;
  epoch.saved.reset();
  // Another process leads the job once this one is gone, and writes its files.
  if (epoch.membership && epoch.membership->has_left())
    stop_showing(epoch.run, epoch.shown);
  return epoch.run.heal(reason);
}

/// Runs all steps, or until a signal or a monitor ends the run. Returns false
/// if another epoch has begun.
bool run_to_end(run_epoch& epoch, step_watches& watches) {
  auto& run = epoch.run;
  const auto& options = epoch.options;
  auto& signals = epoch.signals;
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
  else if (const auto why = end_of_job(epoch.membership); !why.empty())
    run.stop(why);  // saves the states that are left
  try {
    run_steps(run, options, epoch.setup, watches, *epoch.saved);
  } catch (const error& reason) {
    signals.defer_signals();
    const auto end = run.ended();
    if (end && end->reason == reason.what())  // ended after its last step
      return true;
    if (goes_on(epoch, reason))
      return false;
    end_failed_run(run, options, epoch.setup, reason, signals,
                   epoch.saved->saver());
  } catch (...) {
    signals.defer_signals();
    finish_after_failure(run);
    throw;
  }
  signals.defer_signals();
  return true;
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
void save_and_finish(const run_epoch& epoch, const loss_watch& losses) {
  auto& run = epoch.run;
  const auto& options = epoch.options;
  const auto& setup = epoch.setup;
  auto& saver = epoch.saved->saver();
  epoch.saved->after_step(true);
  // Saves first, as a failing picture must not lose the parameters.
  save_all(options.output.save_parameters, run, setup);
  if (!options.output.save_model.empty()
      || !options.output.save_adapter.empty())
    save_model(options, run.gather_parameters(), setup);
  saver.finish();
  const bool shows = leads_job(setup.trainer.job);
  if (shows)
    losses.conclude(options.output.save_parameters);
  conclude_early(run, options, setup, epoch.signals, saver);
  if (const auto parameter = run.not_finite(); shows)
    losses.require_finite(parameter);
  else if (!parameter.empty())
    throw process_end({}, exit_code(error_code::op_failed));
  run.finish_monitors();
}

/// What only a run that begins does, not one that goes on from copies.
void begin(trainer& run, const train_options& options, const train_setup& setup,
           const signal_watch& signals) {
  if (options.output.sample > 0)
    run.require_generation();
  if (run.recovered())
    return;
  if (!options.model.initial.empty())
    run.load(read_safetensors(options.model.initial), options.model.initial);
  save_all(options.output.save_initial, run, setup);
  signals.require_none("the start; nothing is saved");
  require_replay(run, options, setup);
}

/// A job that has begun before goes on from a checkpoint of its own, if it has
/// any.
resume_options resuming(const run_epoch& epoch) {
  auto from = resume_options_of(epoch.options);
  if (epoch.setup.epoch > 1 && !from.folder.empty()
      && !checkpoint_folder(from.folder).steps().empty())
    from.from = "auto";
  return from;
}

std::unique_ptr<trainer_saver> make_saver(const run_epoch& epoch) {
  const auto& options = epoch.options;
  const auto last_silence = milliseconds_of(options.checkpoints.grace * 5 / 6);
  return std::make_unique<trainer_saver>(
    epoch.run,
    saving_options_of(options, {.last_silence = last_silence,
                                .is_stopping =
                                  [&signals = epoch.signals] {
                                    return signals.exit_code() != 0;
                                  }}),
    resuming(epoch), about_run(options, epoch.setup));
}

/// Reports at once what went wrong, unless the job goes on.
void save_or_report(run_epoch& epoch, const loss_watch& losses) {
  auto& run = epoch.run;
  try {
    save_and_finish(epoch, losses);
  } catch (const error& reason) {
    if (run.can_heal(reason))
      throw;
    if (epoch.shown)
      epoch.shown->add_error(reason.what());
    finish_after_failure(run);
    if (epoch.signals.exit_code() == 0 || !epoch.shown)
      throw;
    print_error_line(fmt::format("error: {}", reason.what()));
    throw process_end(
      summary_of(epoch.options, epoch.saved->saver(), run.progress().step),
      exit_code(reason.code()));
  }
}

/// Prints how the run has ended, and what the trained model says.
void print_end(trainer& run, const train_options& options,
               const train_setup& setup, const signal_watch& signals,
               const step_watches& watches) {
  const bool shows = leads_job(setup.trainer.job);
  if (shows)
    print_end_summary(options, watches.tally);
  print_sample(options, shows, [&](const sample_request& what) {
    const auto on_token = [&](std::size_t, const generated&) {
      signals.require_none("sampling");
    };
    return run.generate({what.request}, what.options, on_token).at(0);
  });
}

/// The calls that all processes make once they have met.
void begin_epoch(run_epoch& epoch) {
  auto& run = epoch.run;
  if (epoch.setup.epoch > 1 && !run.recovered())
    go_on_without_copies(epoch.membership, leads_job(epoch.setup.trainer.job));
  begin(run, epoch.options, epoch.setup, epoch.signals);
  const bool shows = leads_job(epoch.setup.trainer.job);
  if (shows && !epoch.shown && run.members().epoch > 1)
    take_over_outputs(epoch.options);
  epoch.saved = make_saver(epoch);
  if (const auto parameter = run.not_finite(); shows)
    warn_unless_finite(parameter);
  if (shows && !epoch.shown)
    epoch.shown.emplace(run, epoch.options, epoch.setup, epoch.membership);
}

/// The ends of the job's processes are no losses from here on.
void finish_membership(const run_epoch& epoch) {
  if (epoch.membership)
    epoch.membership->finish();
}

/// Trains until the run ends, or another epoch begins: then returns false.
bool train_epoch(run_epoch& epoch, step_watches& watches) {
  try {
    begin_epoch(epoch);
    if (!run_to_end(epoch, watches))
      return false;
    save_or_report(epoch, watches.losses);
    print_end(epoch.run, epoch.options, epoch.setup, epoch.signals, watches);
    end_together(epoch.setup.trainer.job);
    finish_membership(epoch);
    return true;
  } catch (const process_end&) {
    if (epoch.run.ended())  // in all processes alike
      finish_membership(epoch);
    throw;
  } catch (const stopped_by_monitor&) {
    finish_membership(epoch);
    throw;
  } catch (const error& reason) {
    if (goes_on(epoch, reason))
      return false;
    throw;
  }
}

void train_with(const train_options& options, const train_setup& setup,
                signal_watch& signals,
                const std::shared_ptr<job_membership>& membership) {
  trainer run(setup.model.layers, setup.trainer);
  signals.defer_signals();
  std::optional<shown_run> shown;
  const regrouped_run regrouped(run, membership, signals,
                                [&] { stop_showing(run, shown); });
  step_watches watches{.losses = loss_watch(setup.trainer.numerics),
                       .profile = make_profile(options, setup)};
  run_epoch epoch{run, options, setup, signals, membership, shown};
  while (!train_epoch(epoch, watches)) {
  }
}

}  // namespace

void train_pipeline(const train_options& options, train_setup& setup,
                    signal_watch& signals,
                    const std::shared_ptr<job_membership>& membership) {
  for (;;)
    try {
      return train_with(options, setup, signals, membership);
    } catch (const states_lost&) {
      if (const auto why = end_of_job(membership); !why.empty())
        fail(error_code::op_failed,
             "{}; no process that is left holds a copy of some state, and {}",
             why, newest_checkpoint(options.checkpoints.folder));
      auto met = setup.trainer.healing.rejoin({}, {});
      setup.trainer.job = std::move(met.job);
      setup.trainer.hosting = std::move(met.hosting);
      setup.epoch = setup.trainer.healing.epoch = met.epoch;
    }
}

}  // namespace troupe::cli
