#include "troupe/actors/event_board.hpp"

#include <algorithm>

namespace troupe {

void event_board::set(std::vector<subscription> all) {
  const std::scoped_lock lock(mutex_);
  all_ = std::move(all);
  ops_ = std::ranges::any_of(all_, &subscription::ops);
}

std::shared_ptr<const tensor_interest> event_board::interest(
  std::int64_t step, phase phase) const {
  if (step % stride_ != 0)
    return nullptr;
  std::vector<subscription> active;
  {
    const std::scoped_lock lock(mutex_);
    std::ranges::copy_if(all_, std::back_inserter(active),
                         [&](const subscription& wish) {
                           return wish.wants_tensors(step, phase);
                         });
  }
  if (active.empty())
    return nullptr;
  return std::make_shared<const tensor_interest>(std::move(active));
}

}  // namespace troupe
