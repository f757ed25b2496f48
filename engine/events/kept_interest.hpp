#pragma once

#include <memory>
#include <vector>

#include "troupe/engine/events/interest.hpp"

namespace troupe {

/// Returns the same object for unchanged subscriptions, so stages need not
/// match the names of their modules again.
class kept_interest {
 public:
  /// Null if there are no subscriptions.
  std::shared_ptr<const tensor_interest> get(
    const std::vector<subscription>& wanted) {
    if (wanted.empty())
      return nullptr;
    if (!last_ || last_->subscriptions() != wanted)
      last_ = std::make_shared<const tensor_interest>(wanted);
    return last_;
  }

 private:
  std::shared_ptr<const tensor_interest> last_;
};

}  // namespace troupe
