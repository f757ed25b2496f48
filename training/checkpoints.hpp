#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/actors/trainer.hpp"
#include "troupe/training/checkpoint_saver.hpp"
#include "troupe/training/resume.hpp"

namespace troupe {

/// How a run is saved, and what it goes on from.
struct checkpoint_options {
  std::string folder{};    // empty: nothing is saved
  std::int64_t every = 0;  // steps between checkpoints; 0: at the end alone
  kept_checkpoints kept{};
  std::string resume{};    // as resume_options::from: "auto", a path or empty
  std::int64_t steps = 0;  // of the whole run, for messages; 0: unknown
  /// Added to what the trainer itself records: the model (texts_of_folder), and
  /// the settings of the data, which a resumed run compares with its own.
  manifest about{};
  checkpoint_words words{};
  saver_timeouts timeouts{};
};

/// Checkpoints of a trainer, written in the background. One thread uses it,
/// between two steps; all processes of a job make the same calls:
///
///     run_checkpoints saved(run, {.folder = "run", .every = 100,
///                                 .resume = "auto"});
///     for (const auto& step : run.train(text, saved.steps_left(1000)))
///       saved.after_step();
///     saved.finish();
class run_checkpoints {
 public:
  /// Keeps the folder for this job, and lets the run go on from the checkpoint
  /// that `resume` means. Throws as `lock_checkpoints`, `resume` and
  /// `trainer::restore` do.
  run_checkpoints(trainer& run, const checkpoint_options& options);

  /// Steps that are left of so many in all.
  std::int64_t steps_left(std::int64_t steps) const;
  /// Saves if a checkpoint is due, or with `now`, or if some process has asked
  /// for one (`trainer::request_save`). The tensors are copied at once; an
  /// error of writing them is logged by the next call, and thrown by `finish`.
  void after_step(bool now = false);
  /// Saves the last step, unless it is saved, and waits until it is written.
  /// Throws `io`.
  void finish();
  /// "step 40 is saved in run/step-00000040", once that is done.
  std::string summary() const;

  checkpoint_saver& saver() { return saver_; }
  const checkpoint_saver& saver() const { return saver_; }

 private:
  trainer& run_;
  std::unique_ptr<folder_lock> lock_;
  checkpoint_saver saver_;
};

/// Saves the run as it is between two steps as a checkpoint in a folder, beside
/// those that are there, and waits until it is written. All processes of a job
/// call it. Throws `io`.
void save(trainer& run, const std::string& folder, const manifest& about = {});

/// Lets the run go on from a checkpoint, or from the last intact, finite one of
/// a folder. Returns its step; 0 if the folder holds none, or is not there. All
/// processes of a job call it. Throws `io`, `invalid_checkpoint`.
std::int64_t resume(trainer& run, const std::string& folder);

}  // namespace troupe
