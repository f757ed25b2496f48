#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "troupe/engine/device/thrown.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

/// Work for a loop's thread that is left out once whoever gave it is gone, and
/// whose errors are told in one place. Copies are of the same guard. Used on
/// the loop's thread alone.
class loop_guard {
 public:
  using failed = std::function<void(error_code, const std::string& reason)>;

  explicit loop_guard(failed then)
    : then_(std::make_shared<failed>(std::move(then))) {}

  /// From now on nothing is called.
  void end() const { *then_ = nullptr; }
  bool has_ended() const { return !*then_; }

  void fail(error_code code, const std::string& reason) const {
    if (const auto then = *then_)
      then(code, reason);
  }

  /// `work`, while the guard has not ended; what it throws is told.
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
