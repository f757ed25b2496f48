#pragma once

#include <functional>
#include <string>

namespace troupe::cli {

/// Runs a program's work, reports an exception, and returns the exit code.
using error_reporter = int (*)(const std::function<int()>& work);

/// Sets up the whole process, before anything else runs. Closed descriptors 0
/// to 2 become the null device, so that no file opened later is taken for
/// standard output; printing to a standard output that was closed fails. A pipe
/// without a reader and a file beyond the limit (`ulimit -f`) make the write
/// fail, like a full disk, and don't end the process. An exception that no
/// thread catches, as where memory is used up, is reported and ends the process
/// with exit code 1.
void prepare_process(error_reporter report);

/// Lets all output to a standard output that was closed be dropped: for
/// commands whose purpose is not what they print.
void drop_closed_output();

/// Throws `error` (device) if the limits of this process leave too little for
/// `troupe-runtime`: of address space (`ulimit -v`) to load LibTorch, which
/// would abort; of open files (`ulimit -n`).
void require_room_for_runtime();

/// An error's text; one about too many open files with their limit.
std::string with_limit(std::string text);

/// Replaces this process by the program that has LibTorch, `troupe-runtime`, in
/// the same folder, with the same arguments. Returns only by throwing `error`
/// (io): it is missing or can't be started; (device): limits of this process
/// leave too little for it.
[[noreturn]] void become_runtime(char** argv);

}  // namespace troupe::cli
