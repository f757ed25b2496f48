#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::membership {

enum class remedy : std::uint8_t {
  restart,  ///< the process is started again; ranks wait for it for a while
  rehost,   ///< other members take the ranks
  retry,    ///< the step is run again, as it was
  stop,     ///< the job ends
};

/// What is done, at most so many times within a time; then the job stops.
struct failure_rule {
  remedy action = remedy::rehost;
  std::int32_t most = 3;
  moment within = std::chrono::minutes(10);
  bool operator==(const failure_rule&) const = default;
};

/// As text in failure_text.hpp.
struct failure_policy {
  /// Restart, rehost or stop.
  failure_rule lost_member{.action = remedy::rehost, .most = 10};
  /// Retry, rehost or stop.
  failure_rule failed_op{.action = remedy::stop};
  /// How long ranks wait for a process that is started again.
  moment restart_patience = std::chrono::seconds(30);
  /// A step that has failed in so many members is itself at fault.
  std::int32_t members_of_step = 3;
  bool operator==(const failure_policy&) const = default;
};

/// A failure in the record. Times are ages, as no clock outlives its process.
struct past_failure {
  bool is_op = false;  // else a member was lost
  member_id member = no_member;
  std::int64_t step = 0;
  std::int64_t age_us = 0;  // when the record was stored
};
TROUPE_FIELDS(past_failure, is_op, member, step, age_us)

/// The failures of a job, and what to do about the next.
class failure_history {
 public:
  explicit failure_history(failure_policy policy) : policy_(policy) {}
  void restore(moment now, const std::vector<past_failure>& failures);
  std::vector<past_failure> failures(moment now) const;

  remedy add_loss(moment now, member_id member);
  /// Whether the next loss is healed.
  bool allows_loss(moment now) const;
  /// `what` is the failure in words, for `stop_reason`; `members`: how many the
  /// job has. A step that fails again where it is retried is rehosted; one that
  /// has failed in all of several members, or in enough of them, is at fault.
  remedy add_failed_op(moment now, member_id member, std::int64_t step,
                       const std::string& what, std::int32_t members);
  /// Where a step has failed, ascending.
  std::vector<member_id> members_failing(std::int64_t step) const;
  /// Why the last remedy is to stop.
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  struct entry {
    bool is_op;
    member_id member;
    std::int64_t step;
    moment when;
  };
  remedy judge(moment now, const failure_rule& rule, bool is_op,
               const std::string& what);

  failure_policy policy_;
  std::vector<entry> entries_;
  std::string stop_reason_;
};

}  // namespace troupe::membership
