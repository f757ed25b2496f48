#pragma once

#include <cstdint>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::membership {

struct rank_move {
  std::int32_t rank = 0;
  member_id to = no_member;
  bool operator==(const rank_move&) const = default;
};
TROUPE_FIELDS(rank_move, rank, to)

struct hosting_wishes {
  std::vector<rank_move> moves{};
  std::vector<rank_move> avoided{};  // the rank goes to another member
  bool is_balanced = false;          // loads differ by at most one rank

  bool is_empty() const {
    return moves.empty() && avoided.empty() && !is_balanced;
  }
};

/// The hosting of the next epoch. Ranks stay where they are; those whose host
/// is not among `members` (ascending, at least one) go, one by one, to the
/// member with the fewest ranks, and among equals to one without a replica of
/// the rank, then to one that hosted nothing, then to the lowest number.
/// `previous` is empty in the first epoch: ranks are divided in order, as
/// evenly as possible. Wishes for members that are not there are ignored.
hosting_map choose_hosting(const job_shape&,
                           const std::vector<member_id>& members,
                           const hosting_map& previous,
                           const hosting_wishes& wishes = {});

/// The moves that give a newcomer its share: the last ranks of the members that
/// have most, until it has as many as any of them, or one less.
std::vector<rank_move> share_of(hosting_map hosting, member_id newcomer);

/// Who keeps snapshots of a rank: the next member after its host that hosts no
/// rank of the same state, else the next one; none if the host is alone.
/// Members that are released keep none.
member_id neighbour_of(const job_shape&, const epoch&, std::int32_t rank);

/// The members of an epoch that host no rank and keep no snapshots, if there
/// are any: all those whose help ends when it begins.
std::vector<member_id> unneeded_members(const job_shape&, const epoch&,
                                        bool keeps_snapshots);

}  // namespace troupe::membership
