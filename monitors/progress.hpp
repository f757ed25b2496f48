#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

struct step_times;

/// "step 12/200 loss 2.31 grad_norm 0.81 lr 3e-4 tok/s 41.2k bubble 18 %
/// (plan 16 %) mem 412 MiB"; a validation as "validation at step 12 loss ...";
/// a step of generation as "inference at step 12 tokens 64 tok/s 1.9k".
/// `steps` of the whole run; `times` of the pipeline, if they were measured.
std::string progress_line(const step_event& step, std::int64_t steps,
                          const step_times* times = nullptr);

struct progress_options {
  std::int64_t steps = 0;  // of the whole run
  std::FILE* out = stdout;
  /// One line, redrawn at most ten times in a second and fitted to the width,
  /// with a bar and the time left; validations have lines of their own.
  bool terminal = false;
  int columns = 0;  // 0: the terminal's
  /// Called once if `out` is a pipe whose reader has left: nothing is printed
  /// from then on. Without it, that is an error.
  std::function<void()> reader_left{};
};

/// Prints a line a step.
monitor progress_monitor(const progress_options& options);

/// Prints the steps of a run in their order; for runs without actors. Throws
/// `io`.
class progress_printer {
 public:
  explicit progress_printer(const progress_options& options)
    : options_(options) {}
  void print(const step_event& step, const step_times* times = nullptr);

 private:
  void require_printed(bool printed);
  void redraw(const step_event& step, const step_times* times);

  progress_options options_;
  std::deque<double> seconds_{};  // of the last steps, with what lies between
  std::int64_t last_end_ = 0;     // ns
  std::int64_t drawn_at_ = 0;     // ns
  bool unread_ = false;           // the reader has left
};

/// "1:05", "1:00:00".
std::string duration_text(double seconds);
/// "812", "41.2k", "1.2M".
std::string count_text(double value);

/// Logs slow loads, with the time that they took.
monitor warning_monitor();

}  // namespace troupe
