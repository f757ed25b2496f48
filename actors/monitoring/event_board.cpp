#include "troupe/actors/monitoring/event_board.hpp"

#include <algorithm>

namespace troupe {

std::int64_t event_board::set(std::vector<subscription> all) {
  const std::scoped_lock lock(mutex_);
  ops_ = std::ranges::any_of(all, &subscription::ops);
  all_.clear();
  for (auto& each : all)
    all_.push_back({std::move(each)});
  return ++epoch_;
}

std::shared_ptr<const tensor_interest> event_board::interest_in(
  std::int64_t step, phase of) {
  std::vector<bool> wanted;
  bool due = false;
  for (auto& [wish, since] : all_) {
    wanted.push_back(wish.wants_tensors(step, of));
    due = due || (wanted.back() && !wish.exempt && ++since >= stride_);
  }
  for (std::size_t i = 0; i < all_.size(); ++i)
    wanted[i] = wanted[i] && (due || all_[i].wants.exempt);
  if (std::ranges::find(wanted, true) == wanted.end())
    return nullptr;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (wanted[i])
      all_[i].since = 0;
  if (latest_.epoch != epoch_ || latest_.wanted != wanted) {
    std::vector<subscription> active;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (wanted[i])
        active.push_back(all_[i].wants);
    latest_ = {wanted, epoch_,
               std::make_shared<const tensor_interest>(std::move(active))};
  }
  return latest_.interest;
}

step_wishes event_board::wishes_for(std::int64_t step, phase of) {
  const std::scoped_lock lock(mutex_);
  step_wishes wishes;
  wishes.epoch = epoch_;
  wishes.interest = interest_in(step, of);
  for (const auto& [each, since] : all_)
    if (of == phase::training && each.covers_step(step)) {
      wishes.tells_messages = wishes.tells_messages || each.messages;
      wishes.tells_memory = wishes.tells_memory || each.memory;
      wishes.tells_ops = wishes.tells_ops || each.ops;
    }
  return wishes;
}

}  // namespace troupe
