#pragma once

#include <cstdint>
#include <cstdio>
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
  /// Colour, a bar and an estimate of the time left.
  bool terminal = false;
};

/// Prints a line a step.
monitor progress_monitor(const progress_options& options);

/// Prints one step's line; for runs without actors.
void print_progress(const progress_options& options, const step_event& step,
                    const step_times* times = nullptr);

/// Logs slow loads, with the time that they took.
monitor warning_monitor();

}  // namespace troupe
