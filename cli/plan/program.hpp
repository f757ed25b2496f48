#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/plan/standard_output.hpp"

namespace troupe::cli {

using argument_list = std::vector<std::string>;

/// Makes the application `troupe` without commands.
std::unique_ptr<CLI::App> make_app();

/// Adds arguments from elsewhere, such as a configuration file.
using argument_expander = std::function<argument_list(argument_list)>;

/// Expands and parses the arguments, which runs their command, and returns the
/// exit code; or prints the help that they ask for. Throws `invalid_argument`
/// for wrong usage, with names similar to unknown commands and flags.
/// Exceptions of commands pass through.
int run_command(CLI::App& app, argument_list arguments,
                const argument_expander& expand = {});

/// Runs a program's work. Reports an exception on standard error, except for
/// `reader_left`, and returns its exit code.
int report_errors(const std::function<int()>& work);

/// Prints "troupe: KIND WHAT" to standard error, which may fail; returns the
/// code.
int complain(const char* kind, const char* what, int code);

/// Sends logs to standard error, without characters that control a terminal:
/// they may quote what another process sent.
void open_log();

/// Runs a program's work, reports an exception, and returns the exit code.
using error_reporter = int (*)(const std::function<int()>& work);

/// Sets up the whole process, before anything else runs. Closed descriptors 0
/// to 2 become the null device, so that no file opened later is taken for
/// standard output; printing to a standard output that was closed fails. A pipe
/// without a reader and a file beyond the limit (`ulimit -f`) make the write
/// fail, like a full disk, and don't end the process. As many files may be open
/// as the hard limit allows. An exception that no thread catches, as where
/// memory is used up, is reported and ends the process with exit code 1.
void prepare_process(error_reporter report);

/// Replaces this process by `troupe-runtime`, the program with LibTorch, in the
/// same folder and with the same arguments. Returns only by throwing `error`:
/// `io` if the program is missing or can't be started, `device` if the limits
/// of this process leave too little memory or too few files for it.
[[noreturn]] void become_runtime(argument_list arguments);

}  // namespace troupe::cli
