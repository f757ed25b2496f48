#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/job_meeting.hpp"

namespace troupe {

struct membership_options {
  /// Where the job's authority is: `unix:PATH`, if all processes are on its
  /// machine; else, with credentials in `joining.shown`, `tcp:HOST:PORT`, or
  /// where etcd knows it (engine/launch/etcd/etcd_client.hpp):
  /// `etcd://HOST:PORT[,HOST:PORT...]/JOB`.
  std::string authority{};
  /// How long the authority may be away when it is needed. While steps run it
  /// is not: the processes only connect to it again.
  std::chrono::milliseconds authority_away = std::chrono::minutes(10);
  /// How each epoch's processes meet. `place` tells which process this was as
  /// the job began (-1: it joins later); which one it is in an epoch, and of
  /// how many, is for the authority to say. If that is at a unix socket, all
  /// are on one machine.
  job_options joining{};
  std::int32_t pipeline_ranks = 1;
  std::int32_t replicas = 1;
  bool is_sharded = false;  // the replicas' states differ
  /// The process of each rank, at the job's start; of no use later.
  std::vector<std::int32_t> hosting{};
  /// How long a step may take once another epoch is to begin.
  std::chrono::milliseconds rest_within = std::chrono::seconds(5);
  /// How long a process that wants to leave waits for others to take its ranks;
  /// four times as long if no authority can be asked, unless that was at a unix
  /// socket.
  std::chrono::milliseconds leave_within = std::chrono::seconds(5);
};

/// Callbacks of a membership, on a thread of its own if nothing else is said;
/// they must not call its members, nor end the scope that keeps them set. Empty
/// ones are not called.
struct membership_events {
  /// The epoch `ends` (job_meeting::epoch) is to end: the step that runs is to
  /// be its last, and `at_once`, it is to be given up. A call can come late, as
  /// `meet` begins.
  std::function<void(std::int64_t ends, bool at_once)> change{};
  /// Nobody has taken the ranks of this process, which wants to leave.
  std::function<void()> stays{};
  /// There was an epoch without this process since the one that it was in:
  /// another process may have led it, and written the job's files. On the
  /// thread of `meet`.
  std::function<void()> left_out{};
};

/// This process's membership of a job that heals: its processes may be lost,
/// and others may join. The authority (authority_server) divides the job's time
/// into epochs; within an epoch, members and hosting are fixed
/// (engine/membership/).
class job_membership {
 public:
  /// Connects to the authority. Throws `transport`, and `mismatch` if it
  /// refuses.
  explicit job_membership(membership_options options);
  ~job_membership();
  job_membership(const job_membership&) = delete;
  job_membership& operator=(const job_membership&) = delete;

  class events_scope;
  /// Sets the callbacks until the scope ends, or others are set. None of those
  /// before runs when this returns.
  [[nodiscard]] events_scope on_events(membership_events handlers);

  /// Ends this process's part of the epoch that runs, if it has one, and meets
  /// the members of the next. `held`: the states that are in its memory; `why`:
  /// the op, if one's failure has ended the epoch. A null job: this process has
  /// left the job, which goes on without it, or is done. One thread at a time.
  /// Throws `transport` if the authority is away for too long, `interrupted` by
  /// the options' `stopped`, and `op_failed` if the authority has stopped the
  /// job.
  job_meeting meet(const std::vector<held_rank>& held,
                   const std::optional<failed_op>& why = {});

  /// Asks that others take the ranks of this process; then the next `meet`
  /// returns a null job. Any thread.
  void leave();

  /// The job is done, as all its processes know: their ends are no losses. To
  /// be called last.
  void finish();

  /// Whether this process has left the job, or the job has been stopped. Any
  /// thread.
  bool has_left() const;

  /// Why the job is to end in the current epoch, once its states are saved;
  /// empty: it goes on. Any thread.
  std::string ends() const;
  /// Whether it has left the job, and that goes on without it. Any thread.
  bool job_goes_on() const;
  /// Whether the authority lets the job heal of an op's failure, rather than
  /// stop. Any thread.
  bool heals_ops() const;
  /// The job's, as its authority tells it.
  const std::string& name() const;

  /// Asks for another hosting, by process of the current epoch. Any thread.
  void request_hosting(std::vector<std::int32_t> hosting);

 private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

/// Keeps callbacks of a membership set: when its destructor returns, none of
/// them runs any longer. Declare it behind what they use, so that an exception
/// ends it first. It may outlive the membership.
class job_membership::events_scope {
 public:
  events_scope(events_scope&&) noexcept = default;
  events_scope& operator=(events_scope&&) = delete;
  ~events_scope();

 private:
  friend class job_membership;
  events_scope(std::weak_ptr<impl> of, std::int64_t setting)
    : of_(std::move(of)), setting_(setting) {}

  std::weak_ptr<impl> of_;
  std::int64_t setting_;  // which callbacks, if others were set meanwhile
};

}  // namespace troupe
