#pragma once

#include <functional>
#include <string>

namespace troupe::cli {

/// Adds the sink that calls the `log_listener` to the log. To be called before
/// other threads start.
void add_listening_sink();

/// Calls a function for each warning ("warning") and error ("error") that is
/// logged, on the logging thread, but not for findings of monitors
/// (monitor_log.hpp). At most one listener exists at a time.
class log_listener {
 public:
  using function =
    std::function<void(const char* kind, const std::string& text)>;

  explicit log_listener(function hear);
  log_listener(const log_listener&) = delete;
  log_listener& operator=(const log_listener&) = delete;
  /// The function is not called after the destructor has returned.
  ~log_listener();
};

}  // namespace troupe::cli
