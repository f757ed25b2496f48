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
  step_wish wish;
  wish.epoch = epoch_;
  if (!active.empty())
    wish.interest = std::make_shared<const tensor_interest>(std::move(active));
  for (const auto& each : all_)
    if (phase == phase::training && each.covers_step(step)) {
      wish.messages = wish.messages || each.messages;
      wish.memory = wish.memory || each.memory;
      wish.ops = wish.ops || each.ops;
    }
  return wish;
}

}  // namespace troupe
