#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace troupe {

/// Wraps work for a loop's thread: skips it once its owner is gone, and reports
/// its errors in one place. Copies share the guard. Used on the loop's thread
/// only.
class loop_guard {
 public:
  using failed = std::function<void(error_code, const std::string& reason)>;

  explicit loop_guard(failed then)
    : then_(std::make_shared<failed>(std::move(then))) {}

  /// Stops all calls.
  void end() const { *then_ = nullptr; }
  bool has_ended() const { return !*then_; }

  void fail(error_code code, const std::string& reason) const {
    if (const auto then = *then_)
      then(code, reason);
  }

  /// Wraps `work`: runs it until the guard has ended, and reports what it
  /// throws.
  template <class... Given, class Work>
  std::function<void(Given...)> over(Work work) const {
    return [own = *this, work = std::move(work)](Given... given) {
      try {
        if (!own.has_ended())
          work(std::move(given)...);
      } catch (const error& reason) {
        own.fail(reason.code(), reason.what());
      } catch (...) {
        own.fail(error_code::internal, thrown_text());
      }
    };
  }

 private:
  std::shared_ptr<failed> then_;
};

}  // namespace troupe
