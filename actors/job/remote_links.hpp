#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/job/admission.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

struct address_book;

/// A step, as the processes of a job compare it.
remote_begin as_remote(const step_context& step);

/// Sends to the stages, reducers and coordinators of a job's other processes.
/// Thread-safe.
class remote_links : public std::enable_shared_from_this<remote_links> {
 public:
  /// The others as `admission` takes them.
  remote_links(std::shared_ptr<mesh> job, job_layout layout, std::uint64_t run,
               std::shared_ptr<const job_plans> plans,
               std::int64_t parameter_bytes)
    : job_(std::move(job)),
      layout_(layout),
      run_(run),
      checks_(layout, run, std::move(plans), parameter_bytes) {}

  const job_layout& layout() const { return layout_; }
  mesh& job() { return *job_; }
  bool leads() const { return layout_.process == 0; }

  /// Begins a step, whose channels have all their credits.
  void begin(const step_pointer& step);
  /// Sends a stage's tensors to a process at once if their channel has a
  /// credit, else when one comes back.
  void deliver(std::int32_t process, stage_tensors message);
  void on(const credit_back& credit);
  /// Sends a control frame to all others, if this is the leader; else to the
  /// leader.
  void tell(const frame& control);

  /// The checks of what other processes send.
  admission& checks() { return checks_; }
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

  std::shared_ptr<mesh> job_;
  job_layout layout_;
  std::uint64_t run_;  // nothing is sent once the mesh is of another one
  admission checks_;
  std::mutex mutex_;  // of what follows
  step_pointer step_;
  std::vector<waiting_channel> channels_;
};

/// Handlers of the mesh's events, which hand on what other processes send to
/// the actors that it is for. Messages without a receiver here, or beyond the
/// plan's credits, are refused, which ends the connection.
mesh_events dispatch_to(const std::shared_ptr<address_book>& book);

}  // namespace troupe
