#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace troupe::cli {

/// Replaces `--config FILE` in a subcommand's arguments by what the TOML file
/// says: each key as its long flag, ahead of the command line's own, which
/// win. Throws `invalid_argument` with file and line on a syntax error, on an
/// unknown key and on a value that its flag does not take.
std::vector<std::string> expand_config(std::vector<std::string> arguments,
                                       CLI::App& command);

/// The settings of all flags as TOML, as `--config` reads it.
std::string config_text(const CLI::App& command);

}  // namespace troupe::cli
