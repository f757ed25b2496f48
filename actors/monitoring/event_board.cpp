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

/// The subscriptions that see a step's tensors, or would if they watch.
std::vector<bool> event_board::wanted_in(std::int64_t step, phase of) {
  std::vector<bool> wanted;
  bool due = false;
  for (auto& [wish, since] : all_) {
    wanted.push_back(wish.wants_tensors(step, of));
    due = due || (wanted.back() && !wish.exempt && ++since >= stride_);
  }
  for (std::size_t i = 0; i < all_.size(); ++i)
    wanted[i] = wanted[i] && (due || all_[i].wants.exempt);
  return wanted;
}

interest_pointer event_board::interest_of(const std::vector<bool>& wanted,
                                          step_interest& latest) const {
  if (std::ranges::find(wanted, true) == wanted.end())
    return nullptr;
  if (latest.epoch != epoch_ || latest.wanted != wanted) {
    std::vector<subscription> active;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (wanted[i])
        active.push_back(all_[i].wants);
    latest = {wanted, epoch_,
              std::make_shared<const tensor_interest>(std::move(active))};
  }
  return latest.interest;
}

step_wishes event_board::wishes_for(std::int64_t step, phase of,
                                    bool can_run_again) {
  const std::scoped_lock lock(mutex_);
  step_wishes wishes;
  wishes.epoch = epoch_;
  auto now = wanted_in(step, of);
  std::vector<bool> on_hit(now.size(), false);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!now[i])
      continue;
    all_[i].since = 0;
    on_hit[i] = can_run_again && all_[i].wants.watches;
    now[i] = !on_hit[i];
  }
  wishes.interest = interest_of(now, latest_);
  wishes.on_hit = interest_of(on_hit, latest_on_hit_);
  if (wishes.on_hit)
    wishes.reading = step_reading::watched;
  for (const auto& [each, since] : all_)
    if (of == phase::training && each.covers_step(step)) {
      wishes.tells_messages = wishes.tells_messages || each.messages;
      wishes.tells_memory = wishes.tells_memory || each.memory;
      wishes.tells_ops = wishes.tells_ops || each.ops;
    }
  return wishes;
}

}  // namespace troupe
