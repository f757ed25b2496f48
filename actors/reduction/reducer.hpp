#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/reduction/link_collectives.hpp"

namespace troupe {

/// The collectives of a group: reduces a stage's gradients, gathers its
/// parameters, or sums tied gradients. In a reduction a member without a
/// gradient of a parameter counts as zeros; where no member has one, there is
/// no result. Before a collective the members' requests are compared. One
/// thread at a time.
class reducer_core {
 public:
  /// `members`: how many live in this process.
  reducer_core(std::unique_ptr<collectives> calls, std::size_t members);

  /// The answers to all members here, once they are known; none before. The
  /// gradients are the request's own tensors. Throws `internal` for a second
  /// request of a member, `mismatch` naming both sides if members ask for
  /// different collectives, and what the collectives throw.
  std::vector<collective_result> on(collective_request request);
  std::vector<collective_result> on(collective_part part);

 private:
  void require_same(const collective_request& request) const;
  bool run();
  std::vector<collective_result> take_answers();

  std::unique_ptr<collectives> calls_;
  std::size_t members_;
  std::vector<collective_request> waiting_;  // by data rank, copy, stage
  std::int64_t call_ = 0;                    // collectives so far
  event_handle ready_;
};

/// Makes the collectives of a group, and gives the results to its members of
/// this process.
behavior_for<reducer_handle> reducer_actor(caf::event_based_actor* self,
                                           const collective_group& group,
                                           const address_book_pointer& book,
                                           const handler_hook& hook);

}  // namespace troupe
