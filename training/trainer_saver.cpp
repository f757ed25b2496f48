#include "troupe/training/trainer_saver.hpp"

#include <algorithm>
#include <utility>

#include "troupe/actors/trainer.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

saved_run saved_run_of(const trainer& run, manifest about) {
  const auto& numerics = run.options().numerics;
  about.settings[optimizer_setting] = optimizer_name(numerics.optimizer);
  about.learning_rate = texts_of(rates_of(numerics));
  about.aliases = run.aliases();
  return {std::move(about), run.plan().ranks(), run.options().job};
}

namespace {

/// The name and the last checkpoint of a run that goes on from states in
/// memory, from its own folder. All processes of a job call it.
resumed_run recovered_run(const trainer& run, const resume_options& from) {
  const auto& job = run.options().job;
  std::string name, saved;
  if (const checkpoint_folder own(from.folder);
      leads_job(job) && !from.folder.empty())
    if (const auto steps = own.steps(); !steps.empty()) {
      name = stored_checkpoint(own.path_of(steps.front())).about().run;
      saved = std::to_string(steps.front());
    }
  name = shared_text(job, name.empty() ? new_run_name() : name);
  saved = shared_text(job, saved);
  return {name, parse_number<std::int64_t>(saved).value_or(-1)};
}

}  // namespace

resumed_run resume(trainer& run, const resume_options& from,
                   const manifest& about) {
  if (run.recovered())
    return recovered_run(run, from);
  return resume(from, saved_run_of(run, about),
                rates_of(run.options().numerics),
                [&](const stored_checkpoint& stored) {
                  run.restore(stored);
                  run.set_position(
                    position_after(stored.about(), about.settings, from.words));
                });
}

trainer_saver::trainer_saver(trainer& run, const saving_options& saving,
                             const resume_options& from, const manifest& about)
  : run_(run),
    lock_(lock_checkpoints(saving.folder, run.options().job, from.words)),
    saver_(saving, saved_run_of(run, about), resume(run, from, about),
           lock_.get()) {}

std::int64_t trainer_saver::steps_left(std::int64_t steps) const {
  return std::max<std::int64_t>(0, steps - run_.progress().step);
}

void trainer_saver::after_step(bool now) {
  const bool asked = run_.take_save_request();
  saver_.after_step(
    run_.progress(), [this] { return run_.snapshot(); }, now || asked);
}

std::string trainer_saver::summary() const {
  return saver_.summary(run_.progress().step);
}

}  // namespace troupe
