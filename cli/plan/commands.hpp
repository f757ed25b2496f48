#pragma once

#include <array>
#include <string>
#include <string_view>

namespace troupe::cli {

/// A command that needs LibTorch: `troupe` starts another program for it.
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
  runtime_command{"launch", "run the processes of a job on this machine"},
  runtime_command{"checkpoint", "look into checkpoints, or change their files"},
  runtime_command{"certificates",
                  "make certificates for a job on several machines"},
  runtime_command{"lab", "try schedules on a page in a browser"},
};

/// The command's line in `--help`; for the program that has it.
inline std::string summary_of(std::string_view name) {
  for (const auto& command : runtime_commands)
    if (command.name == name)
      return std::string{command.summary};
  return {};
}

}  // namespace troupe::cli
