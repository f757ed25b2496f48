#include "network.hpp"

#include <algorithm>

namespace troupe::simulated {

void network::push(moment at, int from, int to, payload what) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const auto slot = free_.back();
  free_.pop_back();
  slots_[slot] = {at, ++serial_, from, to, std::move(what)};
  heap_.push_back({at, serial_, slot});
  std::push_heap(heap_.begin(), heap_.end());
}

bool network::next(event& found, moment before) {
  if (heap_.empty() || heap_.front().at >= before)
    return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const auto slot = heap_.back().slot;
  heap_.pop_back();
  std::swap(found, slots_[slot]);
  free_.push_back(slot);
  now_ = found.at;
  return true;
}

moment network::delay() {
  if (of_.slow > 0 && !is_calm_ && random_.chance(of_.slow))
    return random_.time(20, random_.chance(4) ? 3000 : 300);
  return moment(random_.between(500, 12000));
}

bool network::is_doubled() {
  return of_.doubles && !is_calm_ && random_.chance(12);
}

void network::send(int from, int to, payload what) {
  if (is_cut(from, to)) {
    after(random_.time(20, 400), from, link_closed{to});
    after(random_.time(20, 400), to, link_closed{from});
    return;
  }
  if (is_doubled())
    push(now_ + random_.time(1, 5000), from, to, what);
  push(now_ + delay(), from, to, std::move(what));
}

void network::send_control(int from, int to, const payload& what) {
  if (is_cut(from, to) || (of_.losses && !is_calm_ && random_.chance(6)))
    return;
  if (is_doubled())
    push(now_ + random_.time(1, 5000), from, to, what);
  push(now_ + delay(), from, to, what);
}

bool network::side_of(int address) const {
  // Authorities come last: two of them may be on different sides.
  const auto index =
    static_cast<std::size_t>(address >= 0 ? address : 63 + address);
  return index < sides_.size() && sides_[index];
}

void network::set_partition(std::vector<bool> sides, bool is_one_way) {
  sides_ = std::move(sides);
  is_one_way_ = is_one_way;
}

void network::calm() {
  sides_.clear();
  cuts_.clear();
  is_calm_ = true;
}

bool network::is_cut(int from, int to) const {
  if (!sides_.empty() && side_of(from) != side_of(to)
      && (!is_one_way_ || side_of(from)))
    return true;
  return std::ranges::any_of(cuts_, [&](const auto& pair) {
    return pair == std::pair(from, to) || pair == std::pair(to, from);
  });
}

}  // namespace troupe::simulated
