#pragma once

#include <exception>
#include <mutex>
#include <string>

namespace troupe {

/// The exception that failed a run in this process first; the run's `error`
/// holds it nested (std::rethrow_if_nested). Any thread.
class failure_cause {
 public:
  /// The exception that is handled now, and its text.
  void keep(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (!first_) {
      first_ = std::current_exception();
      text_ = text;
    }
  }
  /// The exception behind a failure; null if that is another one, such as
  /// another process's.
  std::exception_ptr of(const std::string& failure) const {
    const std::scoped_lock lock(mutex_);
    return failure.ends_with(text_) ? first_ : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr first_;
  std::string text_;
};

}  // namespace troupe
