#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/membership/job_shape.hpp"
#include "troupe/engine/membership/messages.hpp"

namespace troupe::membership {

/// What a member holds, at rest.
struct member_copies {
  member_id member = no_member;
  std::vector<held_copy> copies{};
};

struct step_choice {
  std::optional<std::int64_t> step{};
  /// If there is a step: the member that sends each rank's state; no_member:
  /// the state comes from the checkpoint.
  hosting_map givers{};
  /// If there is none: ranks that lack a copy of the step of which most states
  /// have one.
  std::vector<std::int32_t> lost_ranks{};
};

/// The newest step of whose state each rank has a copy, and who gives it: the
/// rank's new host where it can, else the holder that gives the fewest ranks. A
/// prepared copy counts if the step was decided, which is known if somebody has
/// applied it, or if every state has a copy that is at least prepared.
step_choice choose_step(const job_shape&, const std::vector<member_copies>&,
                        const hosting_map& hosting,
                        std::optional<std::int64_t> checkpoint_step);

}  // namespace troupe::membership
