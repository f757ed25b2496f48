#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "troupe/engine/device/thrown.hpp"

namespace troupe {

/// A step that is recorded while the actors run it. Those who give work to
/// the device take turns, as a recording is one thing for all streams. Once
/// something could not be recorded nothing more is given: the actors hand on
/// what others wait for, without tensors, so that the step ends. Any thread.
class recording {
 public:
  /// Does `work` in its turn, which is for `op`, unless something has failed
  /// before; returns whether it was done. What it throws is noted.
  bool attempt(const std::string& op, const std::function<void()>& work) {
    const std::scoped_lock lock(turn_);
    if (!problem_.empty())
      return false;
    try {
      work();
    } catch (...) {
      problem_ = op + ": " + thrown_text();
    }
    return problem_.empty();
  }
  /// Ends the recording.
  void fail(const std::string& why) {
    const std::scoped_lock lock(turn_);
    if (problem_.empty())
      problem_ = why;
  }
  /// The first failure, with its op; empty without one.
  std::string problem() const {
    const std::scoped_lock lock(turn_);
    return problem_;
  }

 private:
  mutable std::mutex turn_;
  std::string problem_;
};

/// Does work of a step that may be recorded: at once without a recording.
/// `op` names the work; called in a recording only. Returns whether the work
/// was done; if not, hand on no tensors.
template <class Name, class Work>
bool launch(const std::shared_ptr<recording>& into, const Name& op,
            Work&& work) {
  if (into)
    return into->attempt(op(), std::forward<Work>(work));
  std::forward<Work>(work)();
  return true;
}

}  // namespace troupe
