#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/environment.hpp"
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

/// A member's place among the processes of an epoch of the job of this name.
inline launch_environment place_in(launch_environment place,
                                   const membership::epoch& of,
                                   membership::member_id member,
                                   const std::string& job, bool is_local) {
  place.process = index_of(of, member);
  place.processes = static_cast<std::int32_t>(of.members.size());
  place.local_processes = is_local ? place.processes : 0;
  place.launcher = "troupe launch";
  place.job = fmt::format("{} epoch {}", job, of.number);
  return place;
}

/// What a process tells the authority of an op that failed in it.
inline membership::trouble trouble_of(const failed_op& why,
                                      std::int64_t epoch) {
  return {.kind = membership::trouble_kind::op_failed,
          .epoch = epoch,
          .step = why.step,
          .rank = why.rank,
          .what = why.what};
}

inline membership::trouble lost_link(std::int64_t epoch) {
  return {.epoch = epoch, .what = "a process was lost"};
}

[[noreturn]] inline void fail_stopped() {
  fail(error_code::interrupted, "stopped while the processes of the job met");
}

/// Throws if a process has no part in its job any more. `stopped`: why the job
/// was stopped, if it was; `refused`: why the authority refuses the process.
inline void require_part(const std::optional<std::string>& stopped,
                         const std::optional<std::string>& refused) {
  if (stopped)
    fail(error_code::op_failed, "the job was stopped: {}", *stopped);
  if (refused)
    fail(error_code::transport,
         "the job's authority refuses this process, which was away: {}",
         *refused);
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
