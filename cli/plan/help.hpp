#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// The lines of a screen, which --help does not exceed, and its columns.
inline constexpr std::size_t help_lines = 34;
inline constexpr std::size_t help_columns = 80;

/// A section of a command's help: the flags of one or more of CLI11's groups
/// whose titles begin with the same word. "Data: texts and validation" belongs
/// to the section `data`, whose summary is "texts and validation".
struct help_section {
  std::string name;
  std::string summary;
};

/// Makes help of the app and of commands that are added later fit
/// `help_columns`.
void set_help_layout(CLI::App& app);

/// An argument as usage lines show it: "PATH", "[FILE]" if it may be omitted,
/// "COMMAND..." if there may be several. The name of a value that has brackets
/// is shown as it is.
std::string argument_text(const CLI::Option& argument);

/// The first required flag or argument of a command that was not given.
std::string missing_text(const CLI::App& command);

/// The name of the section of a flag.
std::string section_of(const CLI::Option& option);

/// The sections of a command, in the order of their flags; none for a command
/// whose flags have no groups.
std::vector<help_section> sections_of(const CLI::App& command);

/// The help that the arguments ask for: --help (or -h), which is short,
/// --help=SECTION (or --help SECTION) and --help-all; none if they contain no
/// such flag before
/// `--`. Throws `invalid_argument` for an unknown section.
std::optional<std::string> requested_help(
  const CLI::App& app, const std::vector<std::string>& arguments);

/// Spells `help train` as `train --help`, `help` as `--help` and `version` as
/// `--version`; other arguments stay, as do flags of `help` itself.
std::vector<std::string> without_words(std::vector<std::string> arguments);

}  // namespace troupe::cli
