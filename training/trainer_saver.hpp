#pragma once

#include <cstdint>
#include <memory>

#include "troupe/training/checkpoint_saver.hpp"
#include "troupe/training/resume.hpp"

namespace troupe {

class trainer;

/// What a trainer itself tells of its checkpoints, and what is added to it.
saved_run saved_run_of(const trainer& run, manifest about);
/// Lets the trainer go on from the checkpoint that is meant, if any. All
/// processes of a job call it. Throws as the other `resume` and
/// `trainer::restore` do.
resumed_run resume(trainer& run, const resume_options& from,
                   const manifest& about);

/// `run_checkpoints` of all options.
class trainer_saver {
 public:
  /// Throws as `lock_checkpoints` and `resume` do.
  trainer_saver(trainer& run, const saving_options& saving,
                const resume_options& from, const manifest& about);

  std::int64_t steps_left(std::int64_t steps) const;
  void after_step(bool now = false);
  std::string summary() const;

  checkpoint_saver& saver() { return saver_; }
  const checkpoint_saver& saver() const { return saver_; }

 private:
  trainer& run_;
  std::unique_ptr<folder_lock> lock_;
  checkpoint_saver saver_;
};

}  // namespace troupe
