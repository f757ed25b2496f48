#pragma once

#include <unistd.h>

#include <chrono>
#include <thread>

#include "troupe/cli/signals.hpp"

namespace troupe::cli {

/// A failure that was reported already.
class told_failure : public process_end {
  using process_end::process_end;
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
