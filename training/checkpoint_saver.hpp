#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"

namespace troupe {

class mesh;

/// The times for which a checkpoint_saver waits.
struct saver_timeouts {
  /// For the part of a process that sends nothing, not even heartbeats, as it
  /// is stopped.
  std::chrono::milliseconds silence = std::chrono::minutes(10);
  /// The same once the run was asked to stop: launchers soon kill all processes
  /// then.
  std::chrono::milliseconds last_silence = std::chrono::seconds(25);
  /// For parts that are written to be seen here: a network file system may
  /// remember for a minute what a folder lacked.
  std::chrono::milliseconds delay = std::chrono::seconds(60);
  /// Between warnings that a checkpoint is still being written.
  std::chrono::milliseconds warning = std::chrono::seconds(30);
  /// For the last checkpoint after a failure: less than launchers wait before
  /// they kill all processes. `settle` may have less.
  std::chrono::milliseconds settling = std::chrono::seconds(25);
  /// Whether the run was asked to stop; any thread calls it.
  std::function<bool()> is_stopping = {};
};

/// Where checkpoints are saved, when, and which of them are kept.
struct saving_options {
  std::string folder{};    // empty: nothing is saved
  std::int64_t every = 0;  // steps; 0: at the end alone
  kept_checkpoints kept{};
  saver_timeouts timeouts{};
};

/// A run as its checkpoints describe it, and who writes them.
struct saved_run {
  manifest about{};             // but for the progress and the files
  std::int32_t parts = 1;       // that all processes write
  std::shared_ptr<mesh> job{};  // null: this process is alone
};

/// What a run goes on from.
struct resumed_run {
  std::string name{};       // of the run that began
  std::int64_t saved = -1;  // the step, if it is in the run's own folder
};

/// Saves checkpoints of a run, if a folder is given: copies of its tensors are
/// made between two steps, and written by a thread of its own meanwhile. All
/// processes of a job have one, and call the same members in the same order.
class checkpoint_saver {
 public:
  /// `own`: the lock of the folder, in the process that leads; kept by the
  /// caller. Throws `io` if this process can't write to the folder.
  checkpoint_saver(saving_options options, saved_run run, resumed_run from,
                   folder_lock* own);
  /// Settles, and waits for what this process writes.
  ~checkpoint_saver();
  checkpoint_saver(const checkpoint_saver&) = delete;
  checkpoint_saver& operator=(const checkpoint_saver&) = delete;

  /// By part: the tensors that this process writes.
  using snapshot = std::map<std::int32_t, parameter_list>;
  /// Saves if a checkpoint is due after this step, or with `now`, unless that
  /// step is saved already. `copies` is called at once, by this thread. If the
  /// one before could not be written, the log tells so.
  void after_step(const run_progress& progress,
                  const std::function<snapshot()>& copies, bool now = false);
  /// Takes the place of `after_step` in a process that can't save that step:
  /// process 0 does not wait for its part.
  void refuse(std::int64_t step, const std::string& why);
  /// Waits for the last checkpoint; long waits are logged. Throws `io` if it
  /// could not be written.
  void finish();
  /// Waits for the last checkpoint after a failure, for a limited time, after
  /// which the parts of others are not waited for any more; errors are logged.
  void settle(std::optional<std::chrono::milliseconds> longest = {});
  /// A sentence that says what is saved of a run that ended with this step. For
  /// the leading process, once the last checkpoint is finished.
  std::string summary(std::int64_t step) const;

 private:
  struct part_wait;

  bool await_writer(std::chrono::milliseconds longest);
  void finish_or_log();
  void require_written(std::int64_t step);
  void require_progress(std::int64_t step, part_wait& wait);
  std::exception_ptr first_cause(std::int64_t step);
  /// `problem`: why this process's part is not written; empty: it is.
  void report_to_leader(std::int64_t step, const std::string& problem);
  void write(const run_progress& progress, const snapshot& parts,
             const std::stop_token& ended);
  void complete(const run_progress& progress, const std::stop_token& ended);

  saving_options options_;
  folder_lock* own_;
  checkpoint_folder folder_;
  manifest about_;
  std::int32_t parts_;                  // that all processes write
  std::shared_ptr<mesh> job_;           // null: this process is alone
  std::int64_t saved_;                  // step
  std::atomic<std::int64_t> complete_;  // step of the last one here; 0: none
  std::chrono::steady_clock::time_point begun_;  // to write it
  /// The reasons why parts were not written, in process 0, by step and process;
  /// empty: it was written.
  std::map<std::int64_t, std::map<std::int32_t, std::string>> notes_;
  std::future<void> written_;  // valid until `finish` has returned it
  std::jthread writer_;
};

}  // namespace troupe
