#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

// The commands of `troupe-runtime`; cli/plan/commands.hpp says what each is
// for. Each function declares a command's flags; the command runs when it is
// parsed. Commands throw `troupe::error`.
void add_train_command(CLI::App* command);
void add_generate_command(CLI::App* command);
void add_attach_command(CLI::App* command);
void add_detach_command(CLI::App* command);
void add_events_command(CLI::App* command);
void add_top_command(CLI::App* command);
void add_replan_command(CLI::App* command);
void add_ranks_command(CLI::App* command);
void add_move_command(CLI::App* command);
void add_drain_command(CLI::App* command);
/// Throws `process_end` with the exit code of the first process that
/// fails.
void add_launch_command(CLI::App* command);
/// Ends with the job. Throws `process_end` if that was stopped, or for a
/// signal.
void add_authority_command(CLI::App* command);
void add_checkpoint_command(CLI::App* command);
void add_certificates_command(CLI::App* command);
void add_lab_command(CLI::App* command);
/// Completes what the parent of the command holds when it runs.
void add_completion_command(CLI::App* command);

/// Folds settings after a monitor's name into its spec: `ENDPOINT overflow
/// --match 'blocks.*' --abort-after 3` gives `ENDPOINT
/// overflow:match=blocks.*,abort_after=3`. A flag without a value is true.
/// Flags of `troupe attach` itself stay. Throws `invalid_argument` for a
/// setting before any monitor.
std::vector<std::string> fold_settings(std::vector<std::string> arguments);

}  // namespace troupe::cli
