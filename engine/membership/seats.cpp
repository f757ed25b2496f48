#include "troupe/engine/membership/seats.hpp"

#include <algorithm>
#include <utility>

namespace troupe::membership {

seat* seat_table::find(member_id member) {
  return const_cast<seat*>(std::as_const(*this).find(member));
}

const seat* seat_table::find(member_id member) const {
  const auto found =
    std::ranges::lower_bound(seats_, member, {}, &seat::member);
  return found != seats_.end() && found->member == member ? &*found : nullptr;
}

seat& seat_table::add(moment now, member_id member) {
  if (auto* found = find(member))
    return *found;
  const auto place =
    std::ranges::lower_bound(seats_, member, {}, &seat::member);
  return *seats_.insert(place, seat{.member = member, .heard = now});
}

}  // namespace troupe::membership
