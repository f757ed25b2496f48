#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/membership/messages.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

// Messages between a process of a job that heals and the job's authority, in
// control frames.

/// The first message of a process: it wants to be a member.
struct membership_request {
  /// The process's number among those with which the job began; another life of
  /// it has the same. -1: it joins the job while that runs.
  std::int32_t process = 0;
  /// The number of those processes.
  std::int32_t processes = 1;
  /// The member that this process is already, as its connection was lost.
  membership::member_id member = membership::no_member;
  std::int64_t pid = 0;
  std::string host{};  // its machine's name
  membership::job_shape shape{};
  /// Which of those processes hosts which rank in the first epoch; of no use in
  /// a process that joins later.
  std::vector<std::int32_t> hosting{};
  /// How long the process would wait for the others, in ms.
  std::int64_t patience_ms = 0;
  /// Compared with that of the first process.
  job_description description{};
};
TROUPE_FIELDS(membership_request, process, processes, member, pid, host, shape,
              hosting, patience_ms, description)

/// The answer. A process whose number is not the one that it had is no part of
/// any epoch so far.
struct membership_welcome {
  membership::member_id member = membership::no_member;
  std::string job{};  // a name, unique on its machine
  /// The lost member whose process this one is, started again.
  membership::member_id replaces = membership::no_member;
  /// Whether an op's failure may be healed.
  bool heals_ops = false;
};
TROUPE_FIELDS(membership_welcome, member, job, replaces, heals_ops)

/// The answer instead.
struct membership_refusal {
  std::string reason;
  bool is_early = false;  // it may be asked again
};
TROUPE_FIELDS(membership_refusal, reason, is_early)

/// A user's wish: the hosting of the ranks, by processes of the current epoch,
/// as it should be.
struct hosting_request {
  std::int64_t epoch = 0;
  std::vector<std::int32_t> hosting{};
};
TROUPE_FIELDS(hosting_request, epoch, hosting)

/// Where the members of an epoch meet, if they are on several machines: from
/// the first of them, and passed on to the others.
struct epoch_meeting {
  std::int64_t epoch = 0;
  std::string where;
};
TROUPE_FIELDS(epoch_meeting, epoch, where)

using membership_message =
  std::variant<membership_request, membership_welcome, membership_refusal,
               hosting_request, epoch_meeting, membership::member_report,
               membership::authority_order>;

frame to_frame(const membership_message& message);
/// Throws `transport` for any other frame.
membership_message read_membership(const frame& what);

}  // namespace troupe
