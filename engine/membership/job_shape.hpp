#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"

namespace troupe::membership {

/// A time of one process's own monotonic clock, since any origin.
using moment = std::chrono::microseconds;

/// One life of a process. A process that is started again is another member:
/// numbers are never used twice in a job.
using member_id = std::int64_t;
inline constexpr member_id no_member = -1;

/// The ranks of the job: rank d x pipeline_ranks + r is pipeline rank r of
/// replica d.
struct job_shape {
  std::int32_t pipeline_ranks = 1;
  std::int32_t replicas = 1;
  /// Whether replicas hold shards; else their states are equal.
  bool is_sharded = false;

  std::int32_t ranks() const { return pipeline_ranks * replicas; }
  std::int32_t states() const { return is_sharded ? ranks() : pipeline_ranks; }
  /// Ranks of equal state have equal numbers, 0 .. states() - 1.
  std::int32_t state_of(std::int32_t rank) const { return rank % states(); }

  bool operator==(const job_shape&) const = default;
};
TROUPE_FIELDS(job_shape, pipeline_ranks, replicas, is_sharded)

/// A hosting: the member of each rank.
using hosting_map = std::vector<member_id>;

/// What every member of an epoch knows of it.
struct epoch {
  std::int64_t number = 0;  // 0: none yet
  /// The step whose state every rank begins with; the next one runs first.
  std::int64_t from_step = 0;
  std::vector<member_id> members{};  // ascending
  hosting_map hosting{};
  /// The member that sends each rank's state to its host; no_member: the host
  /// reads the checkpoint.
  hosting_map givers{};
  /// Members that are of no use once the epoch has begun: they host nothing and
  /// keep no snapshots. Ascending.
  std::vector<member_id> released{};
  /// Why there is a new epoch, in words.
  std::string cause{};
  /// Why the job is to end in this epoch, once its states are saved; empty: it
  /// goes on.
  std::string ends{};
};
TROUPE_FIELDS(epoch, number, from_step, members, hosting, givers, released,
              cause, ends)

}  // namespace troupe::membership
