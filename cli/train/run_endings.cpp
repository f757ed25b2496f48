// The endings of a run other than its last step.
#include "troupe/cli/train/run_endings.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/status_line.hpp"
#include "troupe/cli/train/train_output.hpp"

namespace troupe::cli {

void save_all(const std::string& path, const trainer& run,
              const train_setup& setup) {
  if (!path.empty())
    save(path, run.gather_parameters(), setup);
}

void finish_after_failure(trainer& run) {
  end_patience();
  try {
    run.finish_monitors();
  } catch (const error& reason) {
    spdlog::error(reason.what());
  }
}

void print_error_line(const std::string& text) {
  clear_status_line();
  std::fputs(plain_text(fmt::format("troupe: {}\n", text)).c_str(), stderr);
}

void end_together(const std::shared_ptr<mesh>& job) {
  if (job)
    job->barrier();
}

namespace {

/// Reports that a failed or interrupted step leaves no parameters to save.
void report_lost_parameters(const train_options& options,
                            const train_setup& setup) {
  if (!options.output.save_parameters.empty() && leads_job(setup.trainer.job))
    spdlog::error(
      "{} is not written: the last step was interrupted, so parameters may be "
      "of two different steps",
      options.output.save_parameters);
}

/// The rest of the grace time, for writing files.
std::chrono::milliseconds rest_of_grace(const train_options& options,
                                        const signal_watch& signals) {
  constexpr std::chrono::milliseconds reserve = std::chrono::seconds(1);
  const auto since = signals.since_end().value_or(std::chrono::milliseconds{});
  return std::max(milliseconds_of(options.checkpoints.grace) - since - reserve,
                  reserve);
}

/// After an interrupted step, saves the step before in all processes that still
/// have its parameters.
void save_last_step(trainer& run, const train_options& options,
                    const train_setup& setup, const signal_watch& signals,
                    checkpoint_saver& saver) {
  const auto progress = run.progress();
  if (progress.step == 0)
    return;
  if (const auto why = run.loses_last_step(
        std::chrono::duration<double>(rest_of_grace(options, signals)).count());
      !why.empty()) {
    saver.refuse(progress.step, why);
    if (leads_job(setup.trainer.job))
      spdlog::error("step {} can't be saved: {}", progress.step, why);
    return report_lost_parameters(options, setup);
  }
  try {
    saver.after_step(
      progress, [&] { return run.snapshot(); }, true);
    if (setup.trainer.job)  // other processes may no longer take part
      report_lost_parameters(options, setup);
    else
      save_all(options.output.save_parameters, run, setup);
  } catch (const error& problem) {
    saver.refuse(progress.step, problem.what());
    spdlog::error("step {} can't be saved: {}", progress.step, problem.what());
  }
}

}  // namespace

void end_failed_run(trainer& run, const train_options& options,
                    const train_setup& setup, const error& reason,
                    const signal_watch& signals, checkpoint_saver& saver) {
  const bool interrupted = reason.code() == error_code::interrupted;
  const bool by_signal = interrupted && signals.exit_code() != 0;
  const auto code = by_signal ? signals.exit_code() : exit_code(reason.code());
  end_patience();
  if (leads_job(setup.trainer.job) || !interrupted)
    print_error_line((by_signal ? "" : "error: ") + std::string(reason.what()));
  if (interrupted)
    save_last_step(run, options, setup, signals, saver);
  else if (!run.health().failure.empty())
    report_lost_parameters(options, setup);
  finish_after_failure(run);
  if (by_signal)
    saver.settle(rest_of_grace(options, signals));
  else
    saver.settle();
  if (by_signal && leads_job(setup.trainer.job))
    print_error_line(summary_of(options, saver, run.progress().step));
  end_soon(code, std::min<std::chrono::milliseconds>(
                   std::chrono::seconds(2), rest_of_grace(options, signals)));
  throw process_end({}, code);
}

void conclude_early(trainer& run, const train_options& options,
                    const train_setup& setup, const signal_watch& signals,
                    const checkpoint_saver& saver) {
  const auto end = run.ended();
  if (!end)
    return;
  auto text = end->reason;
  if (!options.output.save_parameters.empty() && leads_job(setup.trainer.job))
    text += fmt::format("; its parameters are saved in {}",
                        options.output.save_parameters);
  if (leads_job(setup.trainer.job))
    text += "; " + summary_of(options, saver, run.progress().step);
  if (end->why == run_end::kind::success) {
    if (leads_job(setup.trainer.job))
      spdlog::warn("the run has ended early: {}", text);
    return;
  }
  finish_after_failure(run);
  end_together(setup.trainer.job);
  if (end->why == run_end::kind::asked && signals.exit_code() != 0)
    signals.end_process(leads_job(setup.trainer.job) ? text : "");
  if (end->why == run_end::kind::asked && !leads_job(setup.trainer.job))
    throw process_end(
      {}, exit_code(error_code::op_failed));  // process 0 has said why
  if (end->why == run_end::kind::asked)       // by a signal to another process
    throw process_end(text, exit_code(error_code::op_failed));
  throw stopped_by_monitor(text);
}

}  // namespace troupe::cli
