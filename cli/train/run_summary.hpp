#pragma once

#include <cstdint>
#include <string>

#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/dashboard/run_description.hpp"

namespace troupe::cli {

/// Whether the run is watched on a terminal that can redraw a line.
bool shows_on_terminal();

/// "gpt, 1.2M parameters".
std::string model_text(const train_options& options, const train_setup& setup);

/// What the dashboard says of the run.
run_description description_of(const train_options& options,
                               const train_setup& setup);

/// Model, split, tokens per step and device, in a few lines.
std::string start_summary(const train_options& options,
                          const train_setup& setup);

/// The steps that a run has taken.
class run_tally {
 public:
  void see(const step_event& step);
  /// Steps, time, loss and rate, and in further lines the files that were
  /// written; empty before the first step.
  std::string text(const train_options& options) const;

 private:
  std::int64_t first_ = 0, last_ = 0;  // steps
  std::int64_t begin_ = 0, end_ = 0;   // ns
  std::int64_t tokens_ = 0;
  std::string losses_;
};

/// Starts and ends a run on a terminal; does nothing elsewhere.
void print_start_summary(const train_options& options,
                         const train_setup& setup);
void print_end_summary(const train_options& options, const run_tally& tally);

}  // namespace troupe::cli
