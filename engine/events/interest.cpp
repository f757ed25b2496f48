#include "troupe/engine/events/interest.hpp"

#include <algorithm>

namespace troupe {

tensor_needs tensor_interest::needs(tensor_kind kind,
                                    const std::string& name) const {
  auto all = tensor_needs::none;
  for (const auto& wish : subscriptions_)
    if (wish.wants(kind, name))
      all = all | wish.needs;
  return all;
}

bool tensor_interest::for_exempt() const {
  return std::ranges::all_of(subscriptions_, &subscription::exempt);
}

}  // namespace troupe
