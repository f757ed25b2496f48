#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

// The commands of `troupe-runtime`. They throw `troupe::error`.

/// Trains a model. Runs when the subcommand is parsed, as all others.
void add_train_command(CLI::App& app);
/// Continues prompts by a stored model.
void add_generate_command(CLI::App& app);
/// `troupe attach` and `troupe detach`.
void add_attach_command(CLI::App& app);
void add_detach_command(CLI::App& app);
/// Prints a live job's events.
void add_events_command(CLI::App& app);
/// A live job at a glance.
void add_top_command(CLI::App& app);
/// Another order of ops for a live job.
void add_replan_command(CLI::App& app);
/// Runs several processes of a job on this machine. Throws `stopped_by_signal`
/// with the exit code of the first that fails.
void add_launch_command(CLI::App& app);
/// `troupe checkpoint inspect|verify|consolidate|split`.
void add_checkpoint_command(CLI::App& app);
/// Makes the credentials of a job's processes on several machines.
void add_certificates_command(CLI::App& app);
/// Serves a page on which schedules are tried, until a signal.
void add_lab_command(CLI::App& app);

/// Folds settings after a monitor's name into its spec: `ENDPOINT overflow
/// --match 'blocks.*' --abort-after 3` gives `ENDPOINT
/// overflow:match=blocks.*,abort_after=3`. A flag without a value is true.
/// Flags of `troupe attach` itself stay. Throws `invalid_argument` for a
/// setting before any monitor.
std::vector<std::string> fold_settings(std::vector<std::string> arguments);

}  // namespace troupe::cli
