#pragma once

#include <functional>
#include <string>

namespace troupe::cli {

/// Lets the log call a `log_listener`. Before any other thread.
void add_listening_sink();

/// Calls a function for each warning ("warning") and error ("error") that is
/// logged, on the thread that logs it, but not for findings of monitors
/// (monitor_log.hpp). One at a time lives.
class log_listener {
 public:
  using function =
    std::function<void(const char* kind, const std::string& text)>;

  explicit log_listener(function hear);
  log_listener(const log_listener&) = delete;
  log_listener& operator=(const log_listener&) = delete;
  /// The function is not called afterwards.
  ~log_listener();
};

}  // namespace troupe::cli
