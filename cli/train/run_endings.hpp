#pragma once

#include <memory>
#include <string>

#include "troupe/actors/trainer.hpp"
#include "troupe/base/error.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/train_checkpoints.hpp"
#include "troupe/cli/train/train_setup.hpp"

namespace troupe::cli {

/// Saves the whole model in the leading process; all processes take part.
void save_all(const std::string& path, const trainer& run,
              const train_setup& setup);

/// Lets monitors write their files after the run has failed. Neither their
/// errors nor a stalled reader of our output may hide the reason of the
/// failure.
void finish_after_failure(trainer& run);

/// Reports at once why a run failed: an op that still runs may take longer than
/// other processes wait for this one, or never return. After a step that a
/// signal interrupted, saves the step before.
[[noreturn]] void end_failed_run(trainer& run, const train_options& options,
                                 const train_setup& setup, const error& reason,
                                 const signal_watch& signals,
                                 checkpoint_saver& saver);

/// Prints to standard error, after the program's name.
void print_error_line(const std::string& text);

/// Keeps processes of a job from ending as a success before all have come to
/// their end.
void end_together(const std::shared_ptr<mesh>& job);

/// Reports a run that a signal or a monitor ended after a step, once its
/// outputs are saved. Throws unless the run is a success.
void conclude_early(trainer& run, const train_options& options,
                    const train_setup& setup, const signal_watch& signals,
                    const checkpoint_saver& saver);

}  // namespace troupe::cli
