#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "troupe/cli/train/train_checkpoints.hpp"

namespace troupe::cli {

/// Saves checkpoints of a run, if --checkpoints is given: copies of its tensors
/// are made between two steps, and written by a thread of its own meanwhile.
/// All processes of a job have one, and call the same members in the same
/// order.
class checkpoint_saver {
 public:
  /// Throws `io` if this process can't write to the folder.
  checkpoint_saver(const train_options& options, const train_setup& setup,
                   resumed_run from);
  /// Waits for what this process writes, not for the parts of others.
  ~checkpoint_saver();
  checkpoint_saver(const checkpoint_saver&) = delete;
  checkpoint_saver& operator=(const checkpoint_saver&) = delete;

  /// By part: the tensors that this process writes.
  using snapshot = std::map<std::int32_t, parameter_list>;
  /// Saves if a checkpoint is due after this step, or with `last` unless that
  /// step is saved already. `copies` is called at once, by this thread. If the
  /// one before could not be written, the log tells so.
  void after_step(const run_progress& progress,
                  const std::function<snapshot()>& copies, bool last = false);
  /// Waits for the last checkpoint. Throws `io` if it could not be written.
  void finish();

 private:
  void require_writers(std::int64_t step,
                       std::chrono::steady_clock::time_point begun);
  void throw_first_cause(std::int64_t step);
  void write(const run_progress& progress, const snapshot& parts,
             const std::stop_token& ended);
  void complete(const run_progress& progress, const std::stop_token& ended);

  checkpoint_options options_;
  checkpoint_folder folder_;
  manifest about_;
  std::int32_t parts_;         // that all processes write
  std::shared_ptr<mesh> job_;  // null: this process is alone
  std::int64_t saved_;         // step
  /// In process 0: by step and process, why a part was not written; empty: it
  /// was.
  std::map<std::int64_t, std::map<std::int32_t, std::string>> notes_;
  std::jthread writer_;
  std::exception_ptr failure_;  // of `writer_`, once it has ended
};

}  // namespace troupe::cli
