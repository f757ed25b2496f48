#pragma once

#include <memory>
#include <string>

namespace troupe {

/// LibTorch's profiler (Kineto) of this process: its operators on all threads,
/// the ranges of `profiled_range`, and on GPUs the kernels that they launch, by
/// CUPTI. It records while it lives, and slows what it records by some percent.
/// One at a time; used by one thread.
class profiler {
 public:
  /// `has_gpu`: also records CUDA kernels; the LibTorch must be one with CUDA.
  explicit profiler(bool has_gpu);
  profiler(const profiler&) = delete;
  profiler& operator=(const profiler&) = delete;
  ~profiler();

  /// Ends the recording, and writes it to a new file in Chrome's trace format
  /// (JSON). Called once at most. Throws `io`.
  void save(const std::string& path);
};

/// A range of this thread in what a profiler records, if there is one; its
/// text is only made then. Costs a nanosecond otherwise.
class profiled_range {
 public:
  template <class Text>
  explicit profiled_range(const Text& text) {
    if (is_recording())
      begin(text());
  }

 private:
  struct range;

  static bool is_recording();
  void begin(const std::string& text);

  std::shared_ptr<range> range_;  // null: nothing records
};

}  // namespace troupe
