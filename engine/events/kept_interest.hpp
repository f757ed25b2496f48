#pragma once

#include <memory>
#include <vector>

#include "troupe/engine/events/interest.hpp"

namespace troupe {

/// Gives the same object for the same subscriptions as before: stages know by
/// it that the names of their modules need not be matched anew.
class kept_interest {
 public:
  /// Null for none.
  std::shared_ptr<const tensor_interest> of(
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
