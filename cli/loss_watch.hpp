#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe::cli {

/// Warns of the first loss that is not finite, and once more at the end.
class loss_watch {
 public:
  void see(const step_event& step);
  /// `saved`: where the parameters were saved; may be empty.
  void conclude(const std::string& saved) const;

 private:
  std::int64_t first_ = 0;  // step; 0: all were finite
  std::int64_t count_ = 0;
};

}  // namespace troupe::cli
