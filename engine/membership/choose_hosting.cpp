#include "troupe/engine/membership/choose_hosting.hpp"

#include <algorithm>
#include <tuple>

namespace troupe::membership {
namespace {

hosting_map even_division(const job_shape& shape,
                          const std::vector<member_id>& members) {
  hosting_map hosting;
  const auto ranks = static_cast<std::size_t>(shape.ranks());
  for (std::size_t i = 0; i < members.size(); ++i)
    hosting.insert(
      hosting.end(),
      ranks * (i + 1) / members.size() - ranks * i / members.size(),
      members[i]);
  return hosting;
}

/// Numbers of ranks by member.
class loads {
 public:
  loads(const job_shape& shape, const std::vector<member_id>& members,
        const hosting_map& previous, hosting_map& hosting)
    : shape_(shape),
      members_(members),
      previous_(previous),
      hosting_(hosting) {}

  bool has(member_id member) const {
    return std::ranges::binary_search(members_, member);
  }
  member_id best_for(std::int32_t rank,
                     const std::vector<rank_move>& avoided) const {
    return *std::ranges::min_element(members_, {}, [&](member_id member) {
      return std::tuple(std::ranges::count(avoided, rank_move{rank, member}),
                        std::ranges::count(hosting_, member),
                        hosts_state(member, rank),
                        std::ranges::count(previous_, member) > 0, member);
    });
  }
  /// Moves the last rank of the most loaded to the least loaded; false: none
  /// need move.
  bool level() {
    const auto load = [&](member_id member) {
      return std::ranges::count(hosting_, member);
    };
    const auto most = *std::ranges::max_element(members_, {}, load);
    const auto least = *std::ranges::min_element(members_, {}, load);
    if (load(most) <= load(least) + 1)
      return false;
    *std::find(hosting_.rbegin(), hosting_.rend(), most) = least;
    return true;
  }

 private:
  bool hosts_state(member_id member, std::int32_t rank) const {
    for (std::int32_t other = 0; other < shape_.ranks(); ++other)
      if (other != rank && hosting_[static_cast<std::size_t>(other)] == member
          && shape_.state_of(other) == shape_.state_of(rank))
        return true;
    return false;
  }

  const job_shape& shape_;
  const std::vector<member_id>& members_;
  const hosting_map& previous_;
  hosting_map& hosting_;
};

}  // namespace

hosting_map choose_hosting(const job_shape& shape,
                           const std::vector<member_id>& members,
                           const hosting_map& previous,
                           const hosting_wishes& wishes) {
  if (previous.empty())
    return even_division(shape, members);
  auto hosting = previous;
  loads of(shape, members, previous, hosting);
  for (const auto& move : wishes.moves)
    if (of.has(move.to) && move.rank >= 0 && move.rank < shape.ranks())
      hosting[static_cast<std::size_t>(move.rank)] = move.to;
  for (std::int32_t rank = 0; rank < shape.ranks(); ++rank)
    if (auto& host = hosting[static_cast<std::size_t>(rank)];
        !of.has(host)
        || std::ranges::count(wishes.avoided, rank_move{rank, host}) > 0)
      host = no_member;
  for (std::int32_t rank = 0; rank < shape.ranks(); ++rank)
    if (auto& host = hosting[static_cast<std::size_t>(rank)]; host == no_member)
      host = of.best_for(rank, wishes.avoided);
  while (wishes.is_balanced && of.level()) {
  }
  return hosting;
}

std::vector<rank_move> share_of(hosting_map hosting, member_id newcomer) {
  const auto load = [&](member_id member) {
    return std::ranges::count(hosting, member);
  };
  std::vector<rank_move> share;
  for (;;) {
    const auto most = *std::ranges::max_element(hosting, {}, load);
    if (load(most) <= load(newcomer) + 1)
      return share;
    const auto last = std::find(hosting.rbegin(), hosting.rend(), most);
    *last = newcomer;
    share.push_back(
      {static_cast<std::int32_t>(hosting.rend() - last - 1), newcomer});
  }
}

member_id neighbour_of(const job_shape& shape, const epoch& of,
                       std::int32_t rank) {
  const auto host = of.hosting[static_cast<std::size_t>(rank)];
  const auto hosts_state = [&](member_id member) {
    for (std::int32_t other = 0; other < shape.ranks(); ++other)
      if (of.hosting[static_cast<std::size_t>(other)] == member
          && shape.state_of(other) == shape.state_of(rank))
        return true;
    return false;
  };
  auto chosen = no_member;
  const auto first = std::ranges::upper_bound(of.members, host);
  const auto consider = [&](member_id member) {
    if (member == host || std::ranges::count(of.released, member) > 0)
      return;
    if (chosen == no_member || (hosts_state(chosen) && !hosts_state(member)))
      chosen = member;
  };
  std::for_each(first, of.members.end(), consider);
  std::for_each(of.members.begin(), first, consider);
  return chosen;
}

std::vector<member_id> unneeded_members(const job_shape& shape, const epoch& of,
                                        bool keeps_snapshots) {
  auto needed = of.hosting;
  for (std::int32_t rank = 0; keeps_snapshots && rank < shape.ranks(); ++rank)
    needed.push_back(neighbour_of(shape, of, rank));
  auto rest = of.members;
  std::erase_if(rest, [&](member_id member) {
    return std::ranges::count(needed, member) > 0;
  });
  return rest;
}

}  // namespace troupe::membership
