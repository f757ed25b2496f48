#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "troupe/engine/launch/authority/process_table.hpp"
#include "troupe/engine/membership/authority.hpp"

namespace troupe {

/// Gives processes that came after the job's start their share of the ranks,
/// once each, as long as fewer processes host ranks than are meant to.
class newcomer_shares {
 public:
  /// The moves to ask for; call it while an epoch runs. `spares`: those of the
  /// first processes that are not meant to host ranks.
  std::vector<membership::rank_move> offer(const membership::authority& decides,
                                           const process_table& processes,
                                           std::int32_t spares);

 private:
  std::set<membership::member_id> offered_;
};

}  // namespace troupe
