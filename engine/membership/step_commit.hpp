#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/membership/messages.hpp"

namespace troupe::membership {

/// The two-phase commit of an epoch's steps, in one member: a step is applied
/// only when the gradients of all ranks are complete. Members that host ranks
/// vote; the lowest of them, the leader, decides. When the member may send, it
/// takes what is due by `take_...`.
class step_commit {
 public:
  step_commit() = default;
  step_commit(const epoch&, member_id self);

  /// The step's gradients are complete in all ranks that this member hosts.
  void prepare(std::int64_t step, std::int64_t stored_step);
  /// False if it is of no use: doubled, or of another epoch or member.
  bool receive(const step_vote&);
  bool receive(const step_decision&);

  /// To the leader, which may be this member.
  std::optional<step_vote> take_vote();
  /// To all other members; the leader's own part is done.
  std::optional<step_decision> take_decision();
  /// The decision for this member.
  std::optional<step_decision> take_applicable();

  member_id leader() const { return hosts_.empty() ? no_member : hosts_[0]; }
  std::int64_t decided_step() const { return decided_; }

 private:
  struct ballot {
    std::int64_t step = 0, stored_step = -1;
  };

  std::int64_t epoch_ = 0;
  member_id self_ = no_member;
  std::vector<member_id> hosts_;  // ascending
  std::vector<ballot> ballots_;   // the leader's, by host
  std::int64_t decided_ = 0;      // by the leader, or as received
  std::optional<step_vote> vote_;
  std::optional<step_decision> applicable_;
};

/// The members that host ranks, ascending.
std::vector<member_id> hosts_of(const hosting_map&);

}  // namespace troupe::membership
