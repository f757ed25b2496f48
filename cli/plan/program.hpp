#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

using argument_list = std::vector<std::string>;

/// Wrong usage, by the convention of shells.
inline constexpr int wrong_usage = 2;

/// An application `troupe` without commands.
std::unique_ptr<CLI::App> make_app();

/// Parses the arguments, which runs their command, and returns the exit code.
/// Reports wrong usage on standard error, and suggests names close to unknown
/// commands and flags. Exceptions of commands pass through.
int run_command(CLI::App& app, const argument_list& arguments);

/// Runs a program's work. Tells on standard error what it throws, and returns
/// the exit code of that.
int report_errors(const std::function<int()>& work);

/// "troupe: KIND WHAT" on standard error, which may be full; returns the code.
int complain(const char* kind, const char* what, int code);

}  // namespace troupe::cli
