#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// Adds the TOML file's content to a subcommand's arguments with `--config
/// FILE`: each key as its long flag, before those of the command line, which
/// take precedence, also over flags that they exclude. Throws
/// `invalid_argument` with file and line on a syntax error, on an unknown key
/// and on a value that its flag refuses, and for a second `--config`.
std::vector<std::string> expand_config(std::vector<std::string> arguments,
                                       CLI::App& command);

/// A flag's default, for --help, in words rather than as a value.
std::string description(const std::string& text);

/// The settings of all flags, by name without dashes, as TOML's values.
std::vector<std::pair<std::string, std::string>> flag_values(
  const CLI::App& command, const std::vector<std::string>& moot = {});

/// The settings of all flags as TOML, as `--config` reads it; omits those that
/// are moot, such as sizes given by a schedule's file, unless they were given.
std::string config_text(const CLI::App& command,
                        const std::vector<std::string>& moot = {});

}  // namespace troupe::cli
