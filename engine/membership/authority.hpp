#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/membership/choose_hosting.hpp"
#include "troupe/engine/membership/choose_step.hpp"
#include "troupe/engine/membership/failure_policy.hpp"
#include "troupe/engine/membership/messages.hpp"
#include "troupe/engine/membership/record_store.hpp"
#include "troupe/engine/membership/seats.hpp"

namespace troupe::membership {

struct authority_options {
  job_shape shape{};
  std::int32_t least_members = 1;  // for the first epoch
  /// The state that every process can make or read when the job begins.
  std::int64_t first_step = 0;
  bool keeps_snapshots = true;  // at neighbours
  /// How long a member may vote after it sent a report that was answered.
  moment lease = std::chrono::seconds(60);
  /// A member of which nothing is heard for so long is lost.
  moment silent_after = std::chrono::seconds(10);
  /// How long members have to freeze that are silent, or lost a link.
  moment accused_after = std::chrono::seconds(1);
  /// How long the ops that run may take when members freeze.
  moment rest_within = std::chrono::minutes(2);
  /// Whether hosts that do not answer are given up only when their leases are
  /// over; else one host's promise ends an epoch. A host that was given up may
  /// then still apply the one step for which all others had voted.
  bool waits_for_leases = false;
  /// If links break in so many epochs in a row, each of which lasts less than
  /// `silent_after`, the member with the most of them is left out for a while.
  int most_broken_epochs = 3;
  moment unfit_for = std::chrono::minutes(2);
  failure_policy policy{};
  /// Whether a job that has lost too many members ends in one more epoch, which
  /// can save the states that are left; else it stops at once.
  bool ends_in_epoch = false;
};

enum class authority_phase : std::uint8_t {
  starting,   ///< takes the record over
  running,    ///< an epoch runs, or members gather for the first
  freezing,   ///< all members stop and tell what they hold
  preparing,  ///< states go to their hosts
  stopped,    ///< the job has ended
  deposed,    ///< another authority has the record; this one is of no use
};

struct authority_output {
  std::vector<authority_order> orders{};
  /// Members whose processes are to be started again, if they have not ended.
  std::vector<member_id> restarts{};
};

/// Decides who hosts which rank, from which step: a state machine, without
/// threads or clocks; its only I/O is the store of its record. It may end at
/// any moment, and another one, of any process, goes on from the record; if two
/// run at once, the earlier one is deposed.
class authority {
 public:
  authority(authority_options options, record_store& store);

  /// To be called at least as often as members report, with a time that is read
  /// when it is called. Two calls are needed to take over.
  authority_output tick(moment now);
  authority_output receive(moment now, const member_report&);
  /// Its launcher saw the process end; there is no need to wait for it.
  authority_output member_ended(moment now, member_id);
  // Requests of users. The next epoch fulfils them, or drops those that would
  // change nothing. Requests that are not fulfilled are lost with an authority;
  // drains are in its record.
  authority_output move(moment now, rank_move);
  authority_output drain(moment now, member_id);
  authority_output balance(moment now);

  authority_phase phase() const { return phase_; }
  /// Whether the job goes on if that member is lost, or after it was.
  bool allows_loss_of(moment now, member_id) const;
  /// Whether that member has asked to leave, or is to.
  bool is_leaving(member_id) const;
  const job_record& record() const { return record_; }
  const seat_table& seats() const { return seats_; }

 private:
  void take_over(moment now);
  void take_office(moment now);
  bool is_confirmed(moment now);
  void note(moment now, seat&, authority_output&);
  void note_broken_link(seat&, const trouble&);
  void note_failed_op(moment now, seat&, const trouble&, authority_output&);
  authority_order answer(moment now, seat&);
  authority_order order_for(const seat&) const;
  authority_order order_of_epoch(const seat&) const;
  void advance(moment now, authority_output&);
  std::optional<std::string> cause_of_new_epoch(moment now) const;
  std::optional<std::string> cause_in_wishes(moment now) const;
  bool has_drains() const;
  std::string leaving_text() const;
  void freeze(moment now, std::string cause, authority_output&);
  bool is_awaited(moment now, const seat&) const;
  bool is_old_epoch_over(moment now) const;
  void count_losses(moment now, authority_output&);
  void form_epoch(moment now, authority_output&);
  bool may_form(moment now) const;
  bool waits_for_restarts(moment now) const;
  member_id replacement_of(moment now, member_id lost) const;
  void leave_out_worst(moment now);
  std::vector<member_id> without_unfit(
    moment now, const std::vector<member_id>& able) const;
  step_choice choose_step_of(const std::vector<member_id>& members,
                             const hosting_map& hosting) const;
  hosting_map choose_hosting_of(moment now,
                                const std::vector<member_id>& members) const;
  void stop_for_lost(moment now, const std::vector<std::int32_t>& ranks,
                     authority_output&);
  void store_epoch(moment now, epoch next, authority_output&);
  bool all_ready() const;
  void begin(moment now, authority_output&);
  void stop(moment now, std::string reason, authority_output&);
  bool store(moment now, job_record next);
  void order_all(authority_output&) const;

  bool is_member(member_id) const;
  bool is_released(member_id) const;
  bool is_draining(const seat&) const;
  bool is_able(moment now, const seat&) const;
  std::vector<member_id> able_members(moment now) const;
  std::vector<member_id> candidates(const std::vector<member_id>& able) const;

  authority_options options_;
  record_store& store_;
  authority_phase phase_ = authority_phase::starting;
  job_record record_;
  bool has_record_ = false;  // stored, and office is not yet taken
  failure_history history_;
  seat_table seats_;
  hosting_wishes wishes_;
  std::string cause_;
  std::string ends_;  // why the job is to end in the next epoch
  std::vector<member_id> restarting_;  // lost ones, whose ranks wait
  int broken_epochs_ = 0;              // in a row
  bool is_link_broken_ = false;
  std::int64_t failed_epoch_ = -1;  // the last one in which an op failed
  moment frozen_at_{}, begun_at_{};
  moment confirmed_at_{};  // when the record was seen to be this one's last
};

}  // namespace troupe::membership
