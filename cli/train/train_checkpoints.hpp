#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

namespace troupe::cli {

/// The setting of a checkpoint that names the optimizer.
inline constexpr auto optimizer_setting = "optimizer";

/// The text of the leading process, in all.
std::string shared(const std::shared_ptr<mesh>& job, std::string text);

/// Throws `invalid_argument` for flags of checkpoints that contradict.
void require_checkpoints(const checkpoint_options& options);

/// Where a run with these flags reads on after a checkpoint: microbatches of
/// its own size. Warns and begins anew if the data differs. Throws
/// `invalid_checkpoint` for settings that no run has.
std::int64_t position_after(const manifest& about, const train_setup& setup);

/// What a run goes on from.
struct resumed_run {
  std::string name;         // of the run that began
  std::int64_t saved = -1;  // the step, if it is in the folder of --checkpoints
};

/// Keeps the folder of --checkpoints for this job, from before --resume looks
/// into it, and removes or completes what killed processes have left there:
/// held by the process that leads; null without a folder. Throws `io` if
/// another job has it.
std::unique_ptr<folder_lock> lock_checkpoints(const train_options& options,
                                              const train_setup& setup);

/// Opens the checkpoint that --resume means, if any, and gives it to `restore`;
/// all processes of a job call it.
resumed_run resume(
  const train_options& options, const train_setup& setup,
  const std::function<void(const stored_checkpoint&)>& restore);

}  // namespace troupe::cli
