#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// The kind of failure that ended the work. The sentence in `error::what` says
/// what is wrong, where, and what to do.
enum class error_code {
  /// A value that the user gave is outside what is legal; nothing was run.
  invalid_argument,
  /// No schedule of this name exists.
  unknown_schedule,
  /// A text (CSV, plan, costs) does not follow its grammar.
  malformed_text,
  /// The ops of a schedule or plan are not a legal step: one is missing,
  /// repeated, in the wrong place, or on the wrong rank.
  invalid_schedule,
  /// The ops wait for each other in a cycle, so no order can run them.
  deadlock,
  /// A file could not be read or written.
  io,
  /// Training or validation data is missing, too short or out of range.
  invalid_data,
  /// A file of parameters or state does not fit the model or is damaged.
  invalid_checkpoint,
  /// Corresponding tensors have different shapes, dtypes or names.
  mismatch,
  /// An op of a running step failed; the message names the root failure.
  op_failed,
  /// A device is missing, out of memory, or reported a failure.
  device,
  /// A peer can't be reached, left, or sent invalid data.
  transport,
  /// The user or the system asked the run to stop.
  interrupted,
  /// troupe broke its own rules; please report it.
  internal,
};

/// The one exception type of troupe.
class error : public std::runtime_error {
 public:
  error(error_code code, const std::string& sentence)
    : std::runtime_error{sentence}, code_{code} {}

  error_code code() const noexcept { return code_; }

 private:
  error_code code_;
};

/// The process's exit code for an error: 2 for wrong usage, else 1.
constexpr int exit_code(error_code code) {
  return code == error_code::invalid_argument
             || code == error_code::unknown_schedule
           ? 2
           : 1;
}

}  // namespace troupe
