#pragma once

#include <string_view>

#include "troupe/base/error.hpp"

namespace troupe::cli {

/// The reader of standard output, such as `head`, has closed it. Every command
/// ends then without a message and with the exit code of SIGPIPE, 141: at once
/// if its purpose is its output, and otherwise when it has done its work.
class reader_left final : public error {
 public:
  reader_left();
};

/// Prints to standard output and flushes it. Throws `reader_left`, and `io` for
/// other problems, also of earlier output that could not be written.
void print_now(std::string_view text);

/// Logs that a command goes on although nobody reads its output.
void tell_that_reader_left();

/// Drops all output to a standard output that was closed, instead of failing:
/// for commands whose purpose is not their output.
void drop_closed_output();

}  // namespace troupe::cli
