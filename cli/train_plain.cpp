#include "troupe/cli/train_plain.hpp"

#include <fmt/format.h>

#include "troupe/base/error.hpp"
#include "troupe/cli/loss_watch.hpp"
#include "troupe/cli/train_output.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/device/threads.hpp"
#include "troupe/engine/plan/compile.hpp"
#include "troupe/engine/plan/versions.hpp"
#include "troupe/engine/stage/plain_loop.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe::cli {

namespace {

/// The versions of the parameters that the schedule's plan reads.
plain_updates updates_of(const trainer_options& run) {
  const auto versions = versions_of(compile(run.schedule));
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
    plain.updates = updates_of(run);
  plain.data_parallel = run.data_parallel;
  plain.numerics = run.numerics;
  if (!run.devices.empty())
    plain.device =
      std::make_shared<rank_device>(run.devices.at(0), run.overlap);
  return plain;
}

step_event one_step(plain_loop& loop, const train_setup& setup,
                    std::int64_t step, std::int64_t first) {
  step_event event;
  event.begin = now_ns();
  const auto result =
    loop.step([&](std::int64_t k) { return setup.training->at(first + k); });
  event.end = now_ns();
  event.source.step = step;
  event.losses = {{"loss", result.loss, 1}};
  event.gradient_norm = result.gradient_norm;
  const auto& run = setup.trainer.numerics;
  event.learning_rate =
    run.learning_rate.at(step, base_learning_rate(run.optimizer));
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
  event.losses = {{"loss",
                   loop.evaluate(
                     [&](std::int64_t k) {
                       signals.require_none("validation");
                       return setup.validation->at(k);
                     },
                     setup.validation_microbatches),
                   1}};
  return event;
}

/// Prints each step, and logs it if wanted; there is no plan to log.
std::function<void(const step_event&)> teller_of(const train_options& options) {
  monitor log;
  if (!options.output.log_json.empty())
    log = metrics_monitor(options.output.log_json);
  return
    [log = std::move(log), to = progress_to(options)](const step_event& step) {
      print_progress(to, step, nullptr);
      if (log.see)
        log.see(step);
    };
}

}  // namespace

void require_model(const train_options& options, const train_setup& setup) {
  if (options.model.initial.empty()
      && setup.trainer.numerics.parameters.empty())
    return;
  const plain_loop loop(setup.model.layers, options_of(setup));
  if (options.model.initial.empty())
    return;
  load_parameters(loop.parameters(), read_safetensors(options.model.initial),
                  options.model.initial);
}

void train_plain(const train_options& options, const train_setup& setup,
                 signal_watch& signals) {
  set_intra_op_threads(options.execution.intra_op_threads);
  plain_loop loop(setup.model.layers, options_of(setup));
  signals.finish_first();
  if (!options.model.initial.empty())
    load_parameters(loop.parameters(), read_safetensors(options.model.initial),
                    options.model.initial);
  save(options.output.save_initial, loop.parameters());
  signals.require_none("the start");
  signals.on_signal([](const char* name) {
    return fmt::format("{}: the run ends after this step", name);
  });
  const auto tell = teller_of(options);
  loss_watch losses;
  std::string ended;
  const auto per_step = std::int64_t{setup.trainer.schedule.microbatches}
                        * options.partition.data_parallel;
  for (std::int64_t step = 1; step <= options.steps && ended.empty(); ++step) {
    const auto done = one_step(loop, setup, step, (step - 1) * per_step);
    tell(done);
    losses.see(done);
    try {
      signals.require_none("the step");
      if (validates_at(options, setup, step))
        tell(validate(loop, setup, step, signals));
    } catch (const error& reason) {
      if (reason.code() != error_code::interrupted)
        throw;
      ended = fmt::format("{} after step {}", signals.name(), step);
    }
  }
  signals.finish_first();
  save(options.output.save_parameters, loop.parameters());
  losses.conclude(options.output.save_parameters);
  if (!ended.empty() && !options.output.save_parameters.empty())
    ended += fmt::format("; its parameters are saved in {}",
                         options.output.save_parameters);
  if (!ended.empty())
    throw error(error_code::interrupted, ended);
  print_sample(options, true, [&](const at::Tensor& ids) {
    signals.require_none("sampling");
    return loop.infer({ids}).at(0);
  });
}

}  // namespace troupe::cli
