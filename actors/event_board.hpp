#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// What all monitors together want, for those who publish: an event that
/// nobody wants costs one relaxed load. Any thread.
class event_board {
 public:
  void set(std::vector<subscription> all);

  bool wants_ops() const { return ops_.load(std::memory_order_relaxed); }
  /// Whether observed tensors of this step are wanted by anybody.
  bool wants_tensors(const event_source& source) const;

 private:
  std::atomic<bool> ops_{false};
  std::atomic<bool> tensors_{false};
  mutable std::mutex mutex_;
  std::vector<subscription> all_;
};

}  // namespace troupe
