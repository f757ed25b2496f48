#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// The tensors of one step that any monitor wants. Immutable: made at the
/// step's start and read by all of its stages, so every monitor sees a step
/// whole or not at all.
class tensor_interest {
 public:
  explicit tensor_interest(std::vector<subscription> wants)
    : subscriptions_(std::move(wants)) {}

  tensor_needs needs(tensor_kind kind, const std::string& name) const {
    auto all = tensor_needs::none;
    for (const auto& wish : subscriptions_)
      if (wish.wants(kind, name))
        all = all | wish.needs;
    return all;
  }
  /// Whether the step's tensors are for exempt monitors only.
  bool for_exempt() const {
    return std::ranges::all_of(subscriptions_, &subscription::exempt);
  }
  const std::vector<subscription>& subscriptions() const {
    return subscriptions_;
  }

 private:
  std::vector<subscription> subscriptions_;
};

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
