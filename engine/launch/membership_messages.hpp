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
  std::int64_t pid = 0;
  membership::job_shape shape{};
  /// Which of those processes hosts which rank in the first epoch; of no use in
  /// a process that joins later.
  std::vector<std::int32_t> hosting{};
  /// Compared with that of the first process.
  job_description description{};
};
TROUPE_FIELDS(membership_request, process, pid, shape, hosting, description)

/// The answer.
struct membership_welcome {
  membership::member_id member = membership::no_member;
  std::string job{};  // a name, unique on its machine
};
TROUPE_FIELDS(membership_welcome, member, job)

/// The answer instead.
struct membership_refusal {
  std::string reason;
};
TROUPE_FIELDS(membership_refusal, reason)

/// A user's wish: the hosting of the ranks, by processes of the current epoch,
/// as it should be.
struct hosting_request {
  std::int64_t epoch = 0;
  std::vector<std::int32_t> hosting{};
};
TROUPE_FIELDS(hosting_request, epoch, hosting)

using membership_message =
  std::variant<membership_request, membership_welcome, membership_refusal,
               hosting_request, membership::member_report,
               membership::authority_order>;

frame to_frame(const membership_message& message);
/// Throws `transport` for any other frame.
membership_message read_membership(const frame& what);

}  // namespace troupe
