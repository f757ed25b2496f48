#pragma once

#include <array>
#include <string_view>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

// The commands of `troupe` itself. They throw `troupe::error`.

/// Compiles a schedule and shows it.
void add_plan_command(CLI::App& app);
/// Proves that a schedule or lowered plan makes progress, or reports the
/// deadlock's cycle of waits.
void add_verify_command(CLI::App& app);
/// Shows durations, idle time and memory of a simulated schedule.
void add_simulate_command(CLI::App& app);
/// Lists the built-in schedules with the shapes that they support.
void add_schedules_command(CLI::App& app);
/// Compares all built-in schedules that fit a job, simulated, in a table.
void add_compare_command(CLI::App& app);
/// Searches for a schedule for measured costs and a memory limit, and compares
/// it with the best built-in one and with a lower bound.
void add_search_command(CLI::App& app);
/// Prints what a bug report needs.
void add_env_command(CLI::App& app);
/// All of these.
void add_plan_commands(CLI::App& app);

/// A command that needs LibTorch: `troupe` executes another program for it.
struct runtime_command {
  std::string_view name;
  std::string_view summary;
};

/// In the order of `troupe --help`.
inline constexpr std::array runtime_commands{
  runtime_command{"train", "train a model on text, cut into pipeline stages"},
  runtime_command{"generate", "continue prompts with a trained model"},
  runtime_command{"attach", "attach monitors to a live job"},
  runtime_command{"detach", "detach a monitor from a live job"},
  runtime_command{"events", "print a live job's events"},
  runtime_command{"top", "watch a live job"},
  runtime_command{"replan", "change the order of ops of a live job"},
  runtime_command{"ranks", "show which process hosts which rank of a live job"},
  runtime_command{"move", "move a rank of a live job to another process"},
  runtime_command{"drain", "move all ranks of a live job off a process"},
  runtime_command{"launch", "run the processes of a job on this machine"},
  runtime_command{"authority",
                  "decide for a job that heals on several machines"},
  runtime_command{"checkpoint", "look into checkpoints, or change their files"},
  runtime_command{"certificates",
                  "make certificates for a job on several machines"},
  runtime_command{"lab", "try schedules on a page in a browser"},
  runtime_command{"completion", "complete commands and flags in a shell"},
};

/// Words for flags: `without_words` replaces them.
inline constexpr std::array word_commands{
  runtime_command{"help", "explain a command; --man: print the manual page"},
  runtime_command{"version", "print the version, as --version"},
};

}  // namespace troupe::cli
