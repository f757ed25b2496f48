#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::membership {

/// How a member holds a rank's state of a step.
enum class copy_kind : std::uint8_t {
  applied,   ///< the rank's own state
  prepared,  ///< the gradients are complete, the update is not yet applied
  snapshot,  ///< a copy in memory: of an own rank or of another member's
};

struct held_copy {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  copy_kind kind = copy_kind::applied;
  bool operator==(const held_copy&) const = default;
};
TROUPE_FIELDS(held_copy, rank, step, kind)

enum class trouble_kind : std::uint8_t {
  link_broken,  ///< to `peer`
  op_failed,    ///< an op of `step`, on `rank`; -1: on all of the member's
  fatal,        ///< what no other epoch can heal: a NaN, an illegal plan
};

/// What ended a member's part of an epoch.
struct trouble {
  trouble_kind kind = trouble_kind::link_broken;
  std::int64_t epoch = 0;
  member_id peer = no_member;
  std::int64_t step = 0;
  std::int32_t rank = 0;
  std::string what{};
};
TROUPE_FIELDS(trouble, kind, epoch, peer, step, rank, what)

enum class member_stage : std::uint8_t {
  idle,       ///< in no epoch yet
  running,    ///< steps of its epoch run
  freezing,   ///< has promised; the executor comes to rest
  frozen,     ///< at rest; the report says what it holds
  preparing,  ///< brings the states of a new epoch to their hosts
  ready,      ///< has the states that it is to host
  left,       ///< has no part in the job any more
};

/// From a member to the authority: where it stands. Sent again and again, and
/// at every change; the last one says all, so any may be lost.
struct member_report {
  member_id member = no_member;
  std::int64_t serial = 0;  // 1, 2, ..
  std::int64_t epoch = 0;   // the last one that it has accepted
  member_stage stage = member_stage::idle;
  /// It takes no part in epochs up to this number any more.
  std::int64_t promise = -1;
  std::vector<held_copy> copies{};  // if frozen
  /// The newest checkpoint that all can read; -1: none.
  std::int64_t checkpoint_step = -1;
  bool wants_to_leave = false;
  /// The lost member whose process this is, started again.
  member_id replaces = no_member;
  std::optional<trouble> problem{};
};
TROUPE_FIELDS(member_report, member, serial, epoch, stage, promise, copies,
              checkpoint_step, wants_to_leave, replaces, problem)

enum class order_kind : std::uint8_t {
  go_on,    ///< nothing new
  freeze,   ///< take no part in epochs up to `epoch.number` any more
  prepare,  ///< take up `epoch`
  begin,    ///< all are ready: run the steps of `epoch.number`
  leave,    ///< the job goes on without you, or is done
  stop,     ///< the job ends, for `reason`
};

/// From the authority to a member: what to do, as the answer to a report or by
/// itself.
struct authority_order {
  member_id member = no_member;
  /// The report whose lease this renews; 0: none.
  std::int64_t answers = 0;
  order_kind kind = order_kind::go_on;
  membership::epoch epoch{};  // whole in `prepare`, else the number alone
  std::string reason{};       // to stop; to leave: that the job is done
};
TROUPE_FIELDS(authority_order, member, answers, kind, epoch, reason)

/// To the leader: the gradients of a step are complete in all ranks of a
/// member.
struct step_vote {
  std::int64_t epoch = 0;
  member_id member = no_member;
  std::int64_t step = 0;
  /// The newest snapshot of the epoch up to which all of the member's ranks are
  /// complete, in its memory and at their neighbours; -1: none.
  std::int64_t stored_step = -1;
};
TROUPE_FIELDS(step_vote, epoch, member, step, stored_step)

/// From the leader to all members: all have voted, so the step is applied.
struct step_decision {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  /// No snapshot before this step is needed any more.
  std::int64_t keep_from = -1;
};
TROUPE_FIELDS(step_decision, epoch, step, keep_from)

}  // namespace troupe::membership

namespace troupe {
template <>
inline constexpr auto largest_value<membership::copy_kind> =
  membership::copy_kind::snapshot;
template <>
inline constexpr auto largest_value<membership::trouble_kind> =
  membership::trouble_kind::fatal;
template <>
inline constexpr auto largest_value<membership::member_stage> =
  membership::member_stage::left;
template <>
inline constexpr auto largest_value<membership::order_kind> =
  membership::order_kind::stop;
}  // namespace troupe
