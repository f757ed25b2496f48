#include "troupe/cli/train/train_setup.hpp"

#include <fmt/format.h>

#include <atomic>
#include <optional>

#include "troupe/actors/stored_state.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/run_summary.hpp"
#include "troupe/cli/train/train_checkpoints.hpp"
#include "troupe/cli/train/train_output.hpp"
#include "troupe/cli/train/train_profile.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/schedules/validate.hpp"
#include "troupe/training/step_profile.hpp"

namespace troupe::cli {

namespace {

/// Which versions of the parameters the schedule's plan reads.
plain_updates updates_of(const train_setup& setup) {
  const auto& run = setup.trainer;
  const auto versions = versions_of(
    compile(run.schedule, {.tied = tied_stages(setup.model.layers, run.split,
                                               run.numerics.parameters)}));
  return {run.schedule.update.every, run.split,
          [versions](std::int32_t stage, std::int32_t microbatch) {
            return versions[static_cast<std::size_t>(stage)]
                           [static_cast<std::size_t>(microbatch)];
          }};
}

plain_options options_of(const train_setup& setup) {
  const auto& run = setup.trainer;
  plain_options plain;
  plain.microbatches = run.schedule.microbatches;
  plain.slices = run.schedule.slices;
  plain.copy_of = copies_taken(run.schedule);
  if (run.schedule.update.every > 0)
    plain.updates = updates_of(setup);
  plain.data_parallel = run.data_parallel;
  plain.numerics = run.numerics;
  plain.intra_op_threads = run.execution.intra_op_threads;
  if (!run.devices.empty())
    plain.device =
      std::make_shared<rank_device>(run.devices.at(0), run.overlap);
  return plain;
}

/// `before` is called before each microbatch, and may throw to abandon the
/// step.
step_event plain_step(plain_loop& loop, const train_setup& setup,
                      std::int64_t step, std::int64_t first,
                      const std::function<void()>& before) {
  step_event event;
  const auto scale = loop.scale().value();
  event.begin = now_ns();
  loop.set_position(first);
  const auto result = loop.step(
    [&](std::int64_t k) {
      before();
      return setup.training->at(first + k);
    },
    setup.training->counts_equally());
  event.end = now_ns();
  event.source.step = step;
  event.losses = {{"loss", result.loss, result.counted}};
  event.gradient_norm = result.gradient_norm;
  event.not_finite = result.not_finite;
  event.learning_rate = result.learning_rate;
  event.loss_scale = scale;
  event.updated = result.updated;
  event.tokens = result.tokens;
  event.resident_bytes = resident_bytes();
  return event;
}

/// Throws `interrupted` on a signal.
step_event validate(plain_loop& loop, const train_setup& setup,
                    std::int64_t step, const signal_watch& signals) {
  step_event event;
  event.source.step = step;
  event.source.phase = phase::validation;
  event.losses = {loop.evaluate(
    [&](std::int64_t k) {
      signals.require_none("validation");
      auto data = setup.validation->at(k);
      event.tokens += data.tokens;
      return data;
    },
    setup.validation_microbatches)};
  return event;
}

/// Abandons a step if a signal leaves no time for it, unless its updates within
/// the step have already changed the parameters.
void require_time(const train_options& options, const train_setup& setup,
                  const signal_watch& signals) {
  const auto since = signals.since_end();
  if (since && setup.trainer.schedule.update.every == 0
      && *since > step_time_after_signal(options))
    fail(error_code::interrupted, "{} within a step", signals.name());
}

void load_initial(const plain_loop& loop, const std::string& path) {
  load_parameters(loop.holders(),
                  with_aliases(read_safetensors(path), loop.aliases(), path),
                  path);
}

/// The loop, its position in the data, and its checkpoints.
class plain_run {
 public:
  plain_run(const train_options& options, const train_setup& setup)
    : setup_(setup),
      loop_(setup.model.layers, options_of(setup)),
      per_step_(std::int64_t{setup.trainer.schedule.microbatches}
                * setup.trainer.data_parallel) {
    if (!options.model.initial.empty())
      load_initial(loop_, options.model.initial);
  }

  plain_loop& loop() { return loop_; }

  void start(const train_options& options) {
    lock_ = lock_checkpoints(options.checkpoints.folder, nullptr);
    const saved_run described{about_run(options, setup_)};
    saver_.emplace(saving_options_of(options), described,
                   resume(resume_options_of(options), described,
                          rates_of(setup_.trainer.numerics),
                          [&](const stored_checkpoint& from) {
                            restore(from, words_of(options));
                          }),
                   lock_.get());
  }
  step_event step(const std::function<void()>& before) {
    const auto done =
      plain_step(loop_, setup_, loop_.steps() + 1, position_, before);
    position_ += per_step_;
    return done;
  }
  /// Saves if a checkpoint is due, or if `now`.
  void save(bool now) {
    const auto& scale = loop_.scale().progress();
    saver_->after_step(
      {.step = loop_.steps(),
       .microbatches = position_,
       .loss_scale = scale.value,
       .good_steps = scale.good_steps,
       .skipped = scale.skipped},
      [this] {
        return checkpoint_saver::snapshot{
          {0, host_copies(without_aliases(loop_.state_dict(), loop_.aliases()),
                          loop_.state())}};
      },
      now);
  }
  void finish() { saver_->finish(); }
  const checkpoint_saver& saver() const { return *saver_; }

 private:
  void restore(const stored_checkpoint& from, const checkpoint_words& words) {
    const auto own = loop_.state_dict();
    require_elements(from, elements_of(own, loop_.aliases()));
    restore_model(from, own, loop_.aliases());
    loop_.load_state(stored_state(from, loop_.state(), loop_.aliases(),
                                  setup_.trainer.numerics.dtypes));
    const auto& progress = from.about().progress;
    loop_.go_on_from(progress.step, {progress.loss_scale, progress.good_steps,
                                     progress.skipped});
    position_ = position_after(from.about(), setup_.data_settings, words);
  }

  const train_setup& setup_;
  plain_loop loop_;
  std::int64_t per_step_;  // microbatches
  std::int64_t position_ = 0;
  std::unique_ptr<folder_lock> lock_;
  std::optional<checkpoint_saver> saver_;
};

/// Returns a function that prints each step, and logs it if --metrics is set,
/// without a plan.
std::function<void(const step_event&)> step_printer(
  const train_options& options, std::int64_t resumed) {
  monitor log;
  if (!options.monitoring.metrics.empty())
    log = metrics_monitor(options.monitoring.metrics, resumed);
  const auto printer = std::make_shared<progress_printer>(progress_to(options));
  return [log = std::move(log), printer](const step_event& step) {
    printer->print(step);
    if (log.see)
      log.see(step);
  };
}

/// Runs all steps, or until a signal. Returns why it ended early, else an empty
/// string.
std::string run_steps(
  plain_run& run, const train_options& options, const train_setup& setup,
  const signal_watch& signals, std::atomic<bool>& save_requested,
  const std::function<void(const step_event&)>& print_step) {
  const auto profile = make_profile(options, setup);
  std::string ended;
  const auto unless_ended = [&](const auto& part) {
    try {
      part();
    } catch (const error& reason) {
      if (reason.code() != error_code::interrupted || signals.exit_code() == 0)
        throw;
      ended =
        fmt::format("{} after step {}", signals.name(), run.loop().steps());
    }
  };
  while (run.loop().steps() < options.steps && ended.empty()) {
    std::optional<step_event> done;
    if (profile)
      profile->before_step();
    unless_ended(
      [&] { done = run.step([&] { require_time(options, setup, signals); }); });
    if (!done)
      break;
    if (profile)
      profile->after_step(run.loop().steps() == options.steps);
    print_step(*done);
    run.save(save_requested.exchange(false));
    unless_ended([&] {
      signals.require_none("the step");
      if (validates_at(options, setup, run.loop().steps()))
        print_step(validate(run.loop(), setup, run.loop().steps(), signals));
    });
  }
  if (profile)
    profile->finish();
  return ended;
}

}  // namespace

void require_model(const train_options& options, const train_setup& setup) {
  if (options.model.initial.empty()
      && setup.trainer.numerics.parameters.empty())
    return;
  const plain_loop loop(setup.model.layers, options_of(setup));
  if (!options.model.initial.empty())
    load_initial(loop, options.model.initial);
}

void train_plain(const train_options& options, const train_setup& setup,
                 signal_watch& signals) {
  plain_run run(options, setup);
  auto& loop = run.loop();
  signals.defer_signals();
  save(options.output.save_initial, loop.parameters(), setup);
  signals.require_none("the start; nothing is saved");
  std::atomic<bool> save_requested = false;
  signals.on_end([](const signal_request& request) {
    return fmt::format("{}: the run stops after this step", request.name);
  });
  signals.on_save([&](const signal_request& request) {
    save_requested = true;
    return answer_to_save(options, request);
  });
  run.start(options);
  warn_unless_finite(first_not_finite(loop.parameters()));
  loss_watch losses(setup.trainer.numerics);
  run_tally tally;
  const auto ended =
    run_steps(run, options, setup, signals, save_requested,
              [&, print_step = step_printer(options, loop.steps())](
                const step_event& step) {
                print_step(step);
                if (step.source.phase != phase::training)
                  return;
                losses.see(step);
                tally.see(step);
              });
  signals.defer_signals();
  if (loop.steps() > 0)
    run.save(true);
  save(options.output.save_parameters, loop.parameters(), setup);
  save_model(options, loop.parameters(), setup);
  run.finish();
  losses.conclude(options.output.save_parameters);
  if (!ended.empty()) {
    const auto& saved = options.output.save_parameters;
    fail(error_code::interrupted, "{}{}; {}", ended,
         saved.empty() ? "" : "; its parameters are saved in " + saved,
         summary_of(options, run.saver(), loop.steps()));
  }
  losses.require_finite(first_not_finite(loop.parameters()));
  print_end_summary(options, tally);
  print_sample(options, true, [&](const sample_request& what) {
    return generate_plainly(
      [&](const at::Tensor& ids) {
        signals.require_none("sampling");
        return loop.infer({ids}).at(0);
      },
      what.request, what.options);
  });
}

}  // namespace troupe::cli
