#pragma once

#include "troupe/engine/events/observer.hpp"

namespace troupe {

/// Publishes what an op has shown so far; a failed device may be unable to.
inline void publish_partial_results(observer& target) noexcept {
  try {
    target.end_op();
    target.flush();
  } catch (...) {
  }
}

/// Does an op's work. If it fails, monitors still see what led to that.
template <class Work>
auto observed(observer& target, const Work& work) {
  try {
    return work();
  } catch (...) {
    publish_partial_results(target);
    throw;
  }
}

}  // namespace troupe
