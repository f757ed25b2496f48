#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

struct step_profile_options {
  std::string file{};
  /// The first step to record, of those of this run, counted from 1; the first
  /// ones of a run are slower.
  std::int64_t from = 3;
  std::int64_t steps = 2;
  /// Also records the kernels of CUDA devices.
  bool has_gpu = false;
};

/// Writes a profile of some steps of a run: the ops of the plan in this
/// process, LibTorch's operators within them, and on GPUs their kernels, by
/// LibTorch's Kineto profiler, in Chrome's trace format, which Perfetto
/// and chrome://tracing open. Each step is a range
/// `ProfilerStep#N`, as of torch.profiler. Recording slows these steps.
///
///     step_profile profile({.file = "profile.json"});
///     while (run.progress().step < steps) {
///       profile.before_step();
///       run.step(text);
///       profile.after_step();
///     }
///     profile.finish();
///
/// Used by the thread that runs the steps.
class step_profile {
 public:
  explicit step_profile(step_profile_options options);
  step_profile(const step_profile&) = delete;
  step_profile& operator=(const step_profile&) = delete;
  /// Records no more; writes nothing.
  ~step_profile();

  void before_step();
  /// Writes the file if this was the last step to record, or `is_last` of the
  /// run. Throws `io`.
  void after_step(bool is_last = false);
  /// Writes what was recorded of a run that has ended otherwise; warns if
  /// nothing was. Does nothing once the file is written. Throws `io`.
  void finish();

 private:
  struct recording;

  void write();

  step_profile_options options_;
  std::int64_t steps_ = 0;  // begun
  bool is_written_ = false;
  std::unique_ptr<recording> recording_;
};

}  // namespace troupe
