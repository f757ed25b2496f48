#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/training/checkpoint_saver.hpp"
#include "troupe/training/run_settings.hpp"

namespace troupe {

/// What messages call the options of a program that saves and resumes.
struct checkpoint_words {
  std::string folder = "folder";    // of saving_options
  std::string resume = "resume";    // resume_options::from
  std::string prefix{};             // of settings' names: "--" of flags
  std::string model = "the model";  // that the run trains
};

/// What a run goes on from.
struct resume_options {
  /// A checkpoint, or a folder of which the last intact, finite one is meant;
  /// "auto": the run's own folder, which may be empty. Empty: none, and the own
  /// folder has to be empty.
  std::string from{};
  std::string folder{};    // the run's own; may be empty
  std::int64_t steps = 0;  // of the whole run; 0: unknown
  checkpoint_words words{};
};

/// The text of the leading process, in all.
std::string shared_text(const std::shared_ptr<mesh>& job, std::string text);

/// Whether this process acts for the whole job.
bool leads_job(const std::shared_ptr<mesh>& job);

/// Where a run whose data has these settings reads on after a checkpoint:
/// microbatches of its own size. Warns and begins anew if the data differs.
/// Throws `invalid_checkpoint` for settings that no run has.
std::int64_t position_after(const manifest& about, const setting_texts& data,
                            const checkpoint_words& words = {});

/// Keeps a folder of checkpoints for this job, from before `resume` looks into
/// it, and removes or completes what killed processes have left there: held by
/// the process that leads; null in others, and without a folder. All processes
/// of a job call it. Throws `io` if another job has it, or the processes don't
/// see one folder.
std::unique_ptr<folder_lock> lock_checkpoints(
  const std::string& folder, const std::shared_ptr<mesh>& job,
  const checkpoint_words& words = {});

/// Opens the checkpoint that the options mean, if any, and gives it to
/// `restore`; logs what the run does differently than the one that saved it.
/// All processes of a job call it. Throws `invalid_argument` (for
/// another model or optimizer, too), `invalid_checkpoint` and `io`.
resumed_run resume(
  const resume_options& options, const saved_run& run,
  const learning_rates& rates,
  const std::function<void(const stored_checkpoint&)>& restore);

}  // namespace troupe
