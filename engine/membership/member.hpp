#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/membership/messages.hpp"
#include "troupe/engine/membership/step_commit.hpp"

namespace troupe::membership {

struct member_options {
  member_id self = no_member;
  member_id replaces = no_member;  // as in member_report
  /// As the authority's; a member stops voting `lease_margin` earlier.
  moment lease = std::chrono::seconds(60);
  moment lease_margin = std::chrono::seconds(3);
  moment report_every = std::chrono::seconds(1);
};

/// What a member wants done, in this order.
struct member_output {
  /// Come to rest, keeping all states; then call `stopped`.
  bool stops_steps = false;
  /// Bring the own ranks to the state of `from_step`, give them to others and
  /// fetch those that it hosts, make links; then call `loaded`.
  bool prepares = false;
  /// Run the steps after `from_step`; drop what it holds for other hosts, but
  /// snapshots.
  bool begins = false;
  std::optional<step_vote> vote{};  // to the leader; itself has counted it
  std::optional<step_decision> decision{};  // to all other members
  /// Apply the step, unless it hosts nothing; drop snapshots before
  /// `keep_from`.
  std::optional<step_decision> applies{};
  std::optional<member_report> report{};  // to the authority
  bool leaves = false;                    // the process may end
  std::optional<std::string> stops_job{};
};

/// A process's part in the decisions of a job that heals: a state machine,
/// without threads, clocks or I/O. Times are of its own monotonic clock. The
/// executor of steps does what is put out, and tells what happened.
class member {
 public:
  member(member_options options, moment now);

  member_output tick(moment now);
  /// When `tick` has something to do.
  moment next_tick() const { return next_report_; }

  member_output receive(moment now, const authority_order&);
  member_output receive(moment now, const step_vote&);
  member_output receive(moment now, const step_decision&);

  // From the executor.
  /// At rest, with what it holds; from here on nothing is applied.
  member_output stopped(moment now, std::vector<held_copy> copies);
  /// Ready for the epoch of this number.
  member_output loaded(moment now, std::int64_t epoch);
  /// The gradients of all ranks that it hosts are complete.
  member_output prepared(moment now, std::int64_t step,
                         std::int64_t stored_step);
  /// The first one of the current epoch; that a released member closes its
  /// links is none.
  member_output fail(moment now, trouble);
  void checkpoint_saved(std::int64_t step);
  /// It would leave the job, as soon as others have its ranks.
  member_output drain(moment now);

  /// Whether its lease is certain: else it neither votes, decides nor applies.
  bool is_leased(moment now) const { return now < lease_end_; }
  /// Whether a message of the epoch may be used now.
  bool takes_part(std::int64_t epoch) const {
    return stage_ == member_stage::running && epoch == epoch_.number;
  }
  /// The member that receives the votes of this one while it runs.
  member_id leader() const { return commit_.leader(); }
  member_stage stage() const { return stage_; }
  /// Whether an epoch of the job is known, in which it need not have a part.
  bool has_seen_epoch() const { return promise_ > 0 || epoch_.number > 0; }
  const epoch& current() const { return epoch_; }
  /// Orders, votes and decisions that were of no use: of other epochs, doubled.
  std::int64_t refused() const { return refused_; }

 private:
  struct sent_report {
    std::int64_t serial = 0;
    moment at{};
  };

  void renew_lease(std::int64_t serial);
  bool follow(const authority_order&, member_output&);
  bool freeze(std::int64_t number, member_output&);
  bool prepare(const epoch&, member_output&);
  bool begin(std::int64_t number, member_output&);
  void take_due_steps(moment now, member_output&);
  void report(moment now, member_output&);

  member_options options_;
  member_stage stage_ = member_stage::idle;
  epoch epoch_;
  std::int64_t promise_ = -1;
  step_commit commit_;
  std::vector<held_copy> copies_;
  std::int64_t checkpoint_step_ = -1;
  bool wants_to_leave_ = false;
  std::optional<trouble> problem_;
  std::int64_t serial_ = 0, refused_ = 0;
  moment lease_end_ = moment::min(), next_report_;
  std::array<sent_report, 16> sent_{};  // by serial
};

}  // namespace troupe::membership
