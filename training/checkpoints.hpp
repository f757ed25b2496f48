#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/checkpoint/manifest.hpp"

namespace troupe {

class trainer;
class trainer_saver;

/// How a run is saved, and what it goes on from.
struct checkpoint_options {
  std::string folder{};    // empty: nothing is saved
  std::int64_t every = 0;  // steps between checkpoints; 0: at the end alone
  /// How many of the last checkpoints are kept, at least 1; if none of them is
  /// finite, also the last one that is.
  std::int32_t keep_last = 2;
  /// Checkpoints of steps divisible by this number are kept, too; 0: no others.
  std::int64_t keep_every = 0;
  /// A checkpoint, or a folder of which the last intact, finite one is meant;
  /// "auto": `folder`, which may be empty. Empty: none, and `folder` has to be
  /// empty.
  std::string resume{};
  std::int64_t steps = 0;  // of the whole run, for messages; 0: unknown
  /// Added to what the trainer itself records: the model (texts_of_folder), and
  /// the settings of the data, which a resumed run compares with its own.
  manifest about{};
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
  /// that `resume` means. Throws `io` if another job has the folder, or it
  /// can't be used; `invalid_argument`, and `invalid_checkpoint` (another model
  /// or optimizer, too), as `trainer::restore` does.
  run_checkpoints(trainer& run, const checkpoint_options& options);
  /// Waits for what is being written, for a limited time.
  ~run_checkpoints();
  run_checkpoints(const run_checkpoints&) = delete;
  run_checkpoints& operator=(const run_checkpoints&) = delete;

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

 private:
  std::unique_ptr<trainer_saver> saver_;
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
