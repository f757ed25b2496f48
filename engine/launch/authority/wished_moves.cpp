#include "troupe/engine/launch/authority/wished_moves.hpp"

#include <utility>

namespace troupe {

std::vector<membership::rank_move> wished_moves(const hosting_request& wish,
                                                const membership::epoch& now) {
  if (wish.epoch != now.number || wish.hosting.size() != now.hosting.size())
    return {};
  std::vector<membership::rank_move> moves;
  for (std::size_t rank = 0; rank < wish.hosting.size(); ++rank) {
    const auto process = wish.hosting[rank];
    if (process < 0 || std::cmp_greater_equal(process, now.members.size()))
      return {};
    if (const auto to = now.members[static_cast<std::size_t>(process)];
        to != now.hosting[rank])
      moves.push_back({static_cast<std::int32_t>(rank), to});
  }
  return moves;
}

}  // namespace troupe
