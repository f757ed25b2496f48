#pragma once

#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace troupe::cli {

/// A failure that was reported already; carries the exit code.
class told_failure : public std::runtime_error {
 public:
  told_failure(const std::string& what, int code)
    : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Ends this process with that code after a while, in any case: a running op
/// can't be interrupted, and its result is no longer needed.
inline void end_soon(
  int code, std::chrono::milliseconds patience = std::chrono::seconds(2)) {
  std::thread([code, patience] {
    std::this_thread::sleep_for(patience);
    ::_exit(code);
  }).detach();
}

}  // namespace troupe::cli
