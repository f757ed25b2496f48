#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

using argument_list = std::vector<std::string>;

/// Exit code for wrong usage, a convention of shells.
inline constexpr int wrong_usage = 2;

/// An application `troupe` without commands.
std::unique_ptr<CLI::App> make_app();

/// Parses the arguments, which runs their command, and returns the exit code.
/// Reports wrong usage on standard error, and suggests names similar to unknown
/// commands and flags. Exceptions of commands pass through.
int run_command(CLI::App& app, const argument_list& arguments);

/// Runs a program's work. Reports an exception on standard error, and returns
/// its exit code.
int report_errors(const std::function<int()>& work);

/// Prints to standard output, and waits until it is written. Throws `io`, for
/// what was printed before too.
void print_now(std::string_view text);

/// Prints "troupe: KIND WHAT" to standard error, which may fail; returns the
/// code.
int complain(const char* kind, const char* what, int code);

/// Sends logs to standard error, without characters that control a terminal:
/// they may quote what another process sent.
void open_log();

}  // namespace troupe::cli
