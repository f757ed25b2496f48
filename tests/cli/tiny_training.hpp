#pragma once

#include <string>

#include "troupe_program.hpp"

namespace troupe::testing {

inline const std::string program = TROUPE_PROGRAM;
/// The flags of a model that trains in milliseconds, for three steps.
inline const std::string tiny =
  " --d-model 16 --layers 4 --heads 2 --seq 8 --microbatch-size 2"
  " --microbatches 4 --steps 3 ";

/// A folder with a text, and runs of the tiny model on it.
struct tiny_training {
  temporary_folder folder;
  std::string text = write_text(folder);

  std::string command(const std::string& flags) const {
    return program + " train --text " + text + tiny + flags;
  }
  program_result train(const std::string& flags) const {
    return run_program(command(flags));
  }
};

}  // namespace troupe::testing
