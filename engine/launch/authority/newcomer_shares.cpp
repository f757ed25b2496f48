#include "troupe/engine/launch/authority/newcomer_shares.hpp"

#include <utility>

namespace troupe {

using namespace membership;

std::vector<rank_move> newcomer_shares::offer(const authority& decides,
                                              const process_table& processes,
                                              std::int32_t spares) {
  auto hosting = decides.record().epoch.hosting;
  std::set<member_id> hosts(hosting.begin(), hosting.end());
  std::vector<rank_move> wishes;
  for (const auto& each : decides.seats()) {
    const bool is_there = each.last.stage == member_stage::frozen
                          || each.last.stage == member_stage::running;
    if (!processes.is_new(each.member) || !is_there
        || hosts.contains(each.member) || offered_.contains(each.member)
        || std::cmp_greater_equal(hosts.size(), processes.hosts() - spares))
      continue;
    offered_.insert(each.member);
    for (const auto& wish : share_of(hosting, each.member)) {
      hosting[static_cast<std::size_t>(wish.rank)] = wish.to;
      wishes.push_back(wish);
    }
    hosts.insert(each.member);
  }
  return wishes;
}

}  // namespace troupe
