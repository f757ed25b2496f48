#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// The words that flags (--schedule) and arguments (spec) take besides files,
/// where the declaration names none.
using value_words = std::map<std::string, std::vector<std::string>>;

/// The script that completes commands, flags and their values in a shell:
/// bash, zsh or fish.
std::string completion_script(const std::string& shell, const CLI::App& app,
                              const value_words& words);

}  // namespace troupe::cli
