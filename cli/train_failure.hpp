#pragma once

#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace troupe::cli {

/// A failure that was told already; carries the exit code.
class told_failure : public std::runtime_error {
 public:
  told_failure(const std::string& what, int code)
    : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Ends this process with that code after a while, whatever it does: an op that
/// runs can't be cut short, and nobody waits for what it gives any more.
inline void end_soon(
  int code, std::chrono::milliseconds patience = std::chrono::seconds(2)) {
  std::thread([code, patience] {
    std::this_thread::sleep_for(patience);
    ::_exit(code);
  }).detach();
}

}  // namespace troupe::cli
