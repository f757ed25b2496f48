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

/// Lets all output to a standard output that was closed be dropped: for
/// commands whose purpose is not what they print.
void drop_closed_output();

/// Replaces this process by the program that has LibTorch, `troupe-runtime`, in
/// the same folder, with the same arguments. Returns only by throwing `error`
/// (io): it is missing or can't be started; (device): limits of this process
/// leave too little for it.
[[noreturn]] void become_runtime(char** argv);

}  // namespace troupe::cli
