#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/job/job_plans.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// A step, as the processes of a job compare it.
remote_begin as_remote(const step_context& step);

/// Sends to the stages, reducers and coordinators of a job's other processes,
/// and checks received messages against the plan. Thread-safe.
class remote_links : public std::enable_shared_from_this<remote_links> {
 public:
  remote_links(std::shared_ptr<troupe::mesh> mesh, job_layout layout,
               std::uint64_t run, std::shared_ptr<const job_plans> plans);

  const job_layout& layout() const { return layout_; }
  troupe::mesh& mesh() { return *mesh_; }
  bool leads() const { return layout_.process == 0; }

  /// A step begins here; its channels have all their credits.
  void begin(const step_pointer& step);
  /// A stage's tensors, to a process: sent if its channel has a credit, else
  /// when one comes back.
  void deliver(std::int32_t process, stage_tensors message);
  void on(const credit_back& credit);
  void send(std::int32_t process, collective_part part);
  void send(std::int32_t process, chosen_tokens tokens);
  /// To all others, if this is the leader; else to the leader.
  void tell(const frame& control);

  /// Refuses tensors that this process does not expect: of another run or
  /// replica, or more than their channels have credits for. Returns what they
  /// say of themselves, for further checks (tensor_admission.hpp).
  envelope admit(std::int32_t sender, const frame_head& announced);
  /// Refuses what another process tells of ops, messages, ranks and stages that
  /// the plan does not have, for monitors, and of ranks that live elsewhere.
  void check(std::int32_t sender, const rank_done& report);
  void check(std::int32_t sender, const event& told) const;
  /// Refuses tokens that the last stage of the replica can't have chosen: of
  /// another process, step, microbatch or slice, or for other rows.
  void check(std::int32_t sender, const chosen_tokens& tokens);
  /// Tensors as the stage gets them, times by this process's clock; its credit
  /// goes back when they are consumed.
  stage_tensors receive(std::int32_t sender, frame what);

 private:
  struct waiting_channel {
    std::int32_t credits = 0;
    std::deque<std::pair<std::int32_t, stage_tensors>> waiting;
  };
  std::int32_t channel_of(std::int32_t message) const;
  void send_now(std::int32_t process, stage_tensors message);

  std::shared_ptr<troupe::mesh> mesh_;
  job_layout layout_;
  std::uint64_t run_;
  std::mutex mutex_;
  step_pointer step_;
  std::vector<waiting_channel> channels_;
  std::shared_ptr<const job_plans> plans_;
  /// Tensors of each process that are here and not consumed: as many as the
  /// credits of any plan allow, as the next step's may come before it begins
  /// here.
  std::vector<std::int64_t> held_;
};

}  // namespace troupe
