#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "troupe/engine/membership/messages.hpp"
#include "troupe/engine/transport/job_meeting.hpp"

namespace troupe {

// In an epoch, processes are numbered in the order of their members.

inline std::int32_t index_of(const membership::epoch& of,
                             membership::member_id member) {
  return static_cast<std::int32_t>(std::ranges::lower_bound(of.members, member)
                                   - of.members.begin());
}

/// The process of each rank.
inline std::vector<std::int32_t> hosting_of(const membership::epoch& of) {
  std::vector<std::int32_t> hosting;
  for (const auto member : of.hosting)
    hosting.push_back(index_of(of, member));
  return hosting;
}

/// What a process tells the authority of the states in its memory.
inline std::vector<membership::held_copy> copies_of(
  const std::vector<held_rank>& held) {
  std::vector<membership::held_copy> copies;
  for (const auto& each : held)
    copies.push_back({each.rank, each.step, membership::copy_kind::snapshot});
  return copies;
}

}  // namespace troupe
