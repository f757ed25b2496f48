#pragma once

#include <c10/util/Exception.h>

#include <mutex>
#include <string>

namespace troupe::testing {

/// Collects LibTorch's warnings of this thread while it lives.
class libtorch_warnings final : c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    const std::scoped_lock lock(mutex_);
    text_ += warning.msg() + "\n";
  }
  std::string text() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  const c10::WarningUtils::WarningHandlerGuard guard_{this};
};

}  // namespace troupe::testing
