#include "troupe/actors/event_board.hpp"

#include <algorithm>

namespace troupe {

std::int64_t event_board::set(std::vector<subscription> all) {
  const std::scoped_lock lock(mutex_);
  all_ = std::move(all);
  ops_ = std::ranges::any_of(all_, &subscription::ops);
  return ++epoch_;
}

event_board::step_wish event_board::wish_for(std::int64_t step,
                                             phase phase) const {
  const std::scoped_lock lock(mutex_);
  std::vector<subscription> active;
  if (step % stride_ == 0)
    std::ranges::copy_if(all_, std::back_inserter(active),
                         [&](const subscription& wish) {
                           return wish.wants_tensors(step, phase);
                         });
  if (active.empty())
    return {nullptr, epoch_};
  return {std::make_shared<const tensor_interest>(std::move(active)), epoch_};
}

}  // namespace troupe
