#include "troupe/training/checkpoints.hpp"

#include <limits>

#include "troupe/actors/trainer.hpp"
#include "troupe/training/trainer_saver.hpp"

namespace troupe {

run_checkpoints::run_checkpoints(trainer& run,
                                 const checkpoint_options& options)
  : saver_(std::make_unique<trainer_saver>(
    run,
    saving_options{
      options.folder, options.every, {options.keep_last, options.keep_every}},
    resume_options{
      .from = options.resume, .folder = options.folder, .steps = options.steps},
    options.about)) {}

run_checkpoints::~run_checkpoints() = default;

std::int64_t run_checkpoints::steps_left(std::int64_t steps) const {
  return saver_->steps_left(steps);
}

void run_checkpoints::after_step(bool now) {
  saver_->after_step(now);
}

void run_checkpoints::finish() {
  saver_->after_step(true);
  saver_->saver().finish();
}

std::string run_checkpoints::summary() const {
  return saver_->summary();
}

void save(trainer& run, const std::string& folder, const manifest& about) {
  const auto& job = run.options().job;
  const auto lock = lock_checkpoints(folder, job);
  const kept_checkpoints all{.last = std::numeric_limits<std::int32_t>::max()};
  checkpoint_saver saver(
    {.folder = folder, .kept = all}, saved_run_of(run, about),
    {.name = shared_text(job, new_run_name())}, lock.get());
  saver.after_step(
    run.progress(), [&] { return run.snapshot(); }, true);
  saver.finish();
}

std::int64_t resume(trainer& run, const std::string& folder) {
  const bool is_one = is_checkpoint(folder);
  resume(run,
         resume_options{.from = is_one ? folder : "auto",
                        .folder = is_one ? std::string{} : folder},
         {});
  return run.progress().step;
}

}  // namespace troupe
