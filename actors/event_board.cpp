#include "troupe/actors/event_board.hpp"

#include <algorithm>

namespace troupe {

void event_board::set(std::vector<subscription> all) {
  const std::scoped_lock lock(mutex_);
  all_ = std::move(all);
  ops_ = std::ranges::any_of(all_, &subscription::ops);
  tensors_ = std::ranges::any_of(all_, &subscription::tensors);
}

bool event_board::wants_tensors(const event_source& source) const {
  if (!tensors_.load(std::memory_order_relaxed))
    return false;
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(all_, [&](const subscription& wants) {
    return wants.tensors
           && source.step % std::max<std::int64_t>(wants.every, 1) == 0;
  });
}

}  // namespace troupe
