#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// Replaces `--config FILE` in a subcommand's arguments by what the TOML file
/// says: each key as its long flag, ahead of the command line's own, which
/// win. Throws `invalid_argument` with file and line on a syntax error, on an
/// unknown key and on a value that its flag does not take.
std::vector<std::string> expand_config(std::vector<std::string> arguments,
                                       CLI::App& command);

/// The default of a flag, for --help, that is no value of it.
std::string description(const std::string& of);

/// The settings of all flags as TOML, as `--config` reads it; without those
/// that are moot, such as sizes that a schedule's file has, if nobody gave
/// them.
std::string config_text(const CLI::App& command,
                        const std::vector<std::string>& moot = {});

}  // namespace troupe::cli
