#include "troupe/training/checkpoints.hpp"

#include <algorithm>
#include <limits>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

namespace {

saved_run described(const trainer& run, manifest about) {
  const auto& numerics = run.options().numerics;
  about.settings[optimizer_setting] = optimizer_name(numerics.optimizer);
  about.learning_rate = texts_of(rates_of(numerics));
  about.aliases = run.aliases();
  return {std::move(about), run.plan().ranks(), run.options().job};
}

resumed_run resume_from(trainer& run, const resume_options& options,
                        const manifest& about) {
  return resume(options, described(run, about),
                rates_of(run.options().numerics),
                [&](const stored_checkpoint& from) {
                  run.restore(from);
                  run.set_position(position_after(from.about(), about.settings,
                                                  options.words));
                });
}

}  // namespace

run_checkpoints::run_checkpoints(trainer& run,
                                 const checkpoint_options& options)
  : run_(run),
    lock_(lock_checkpoints(options.folder, run.options().job)),
    saver_({options.folder, options.every, options.kept, options.timeouts},
           described(run, options.about),
           resume_from(run,
                       {.from = options.resume,
                        .folder = options.folder,
                        .steps = options.steps,
                        .words = options.words},
                       options.about),
           lock_.get()) {}

std::int64_t run_checkpoints::steps_left(std::int64_t steps) const {
  return std::max<std::int64_t>(0, steps - run_.progress().step);
}

void run_checkpoints::after_step(bool now) {
  const bool asked = run_.take_save_request();
  saver_.after_step(
    run_.progress(), [this] { return run_.snapshot(); }, now || asked);
}

void run_checkpoints::finish() {
  after_step(true);
  saver_.finish();
}

std::string run_checkpoints::summary() const {
  return saver_.summary(run_.progress().step);
}

void save(trainer& run, const std::string& folder, const manifest& about) {
  const auto& job = run.options().job;
  const auto lock = lock_checkpoints(folder, job);
  const kept_checkpoints all{.last = std::numeric_limits<std::int32_t>::max()};
  checkpoint_saver saver({.folder = folder, .kept = all}, described(run, about),
                         {.name = shared_text(job, new_run_name())},
                         lock.get());
  saver.after_step(
    run.progress(), [&] { return run.snapshot(); }, true);
  saver.finish();
}

std::int64_t resume(trainer& run, const std::string& folder) {
  const bool is_one = is_checkpoint(folder);
  resume_from(run,
              {.from = is_one ? folder : "auto",
               .folder = is_one ? std::string{} : folder},
              {});
  return run.progress().step;
}

}  // namespace troupe
