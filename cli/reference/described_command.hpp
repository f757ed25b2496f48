#pragma once

#include <string>
#include <vector>

#include "troupe/cli/reference/completion.hpp"

namespace troupe::cli {

/// What completes a value.
struct described_value {
  std::vector<std::string> words;
  bool is_file = false;
};

struct described_flag {
  std::vector<std::string> names;  // -o, --output
  std::string text;                // one line
  bool takes_value = false;
  bool is_repeatable = false;
  described_value value = {};
};

/// A command as shells complete it.
struct described_command {
  std::string path;  // "checkpoint inspect"; empty for the program
  std::string name;  // "inspect"
  std::string text;
  std::vector<described_flag> flags;
  std::vector<described_command> commands;
  bool takes_arguments = false;
  described_value argument;
};

/// The program with all its commands; flags without a group stay hidden.
described_command describe(const CLI::App& app, const value_words& words);

std::string bash_completion(const described_command& program);
std::string zsh_completion(const described_command& program);
std::string fish_completion(const described_command& program);

}  // namespace troupe::cli
