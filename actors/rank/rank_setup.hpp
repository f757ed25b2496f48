#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/actors/step/progress_board.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/plan/lane_executor.hpp"

namespace troupe {

/// A rank's place in its run, and what it runs on.
struct rank_setup {
  std::uint64_t run = 0;
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  std::shared_ptr<progress_board> board;
  /// By stage: whether it reads inputs, targets or arguments.
  std::vector<bool> needs_data;
  std::int32_t prefetch = 2;    // microbatches asked for ahead
  bool waits_for_norm = false;  // updates do: clipping, for example
  bool reduces = false;  // there are several replicas, or copies of stages
  lane_order order = lane_order::strict;
  /// The rank's device; null: the CPU.
  std::shared_ptr<rank_device> device;
  /// Links to devices of other processes; null: what goes there takes the host.
  std::shared_ptr<device_links> links;
  job_layout layout;
};

/// A stage of the rank, on which it runs ops.
struct stage_setup {
  stage_instance instance;
  stage work;
  /// The factor by which its compute ops take longer, from a step on (tests).
  double slow = 1;
  std::int64_t slow_from = 1;
  /// The rank's device; null: the CPU.
  std::shared_ptr<rank_device> device;
};

/// The way of the messages of a rank and its stages. Calls don't block, and
/// don't call back.
class rank_ports {
 public:
  virtual ~rank_ports() = default;
  /// Sends an op to a stage of this rank, which has it run
  /// (`rank_runner::run`).
  virtual void run(stage_instance stage, run_op request) = 0;
  /// Sends tensors to the stage of another rank of the replica.
  virtual void deliver(stage_tensors message) = 0;
  /// Sends chosen tokens to the first stage of the replica.
  virtual void feed(chosen_tokens tokens) = 0;
  virtual void reduce(collective_request request) = 0;
  virtual void want(want_data request) = 0;
  virtual void done(rank_done report) = 0;
  /// Sends the powers of a stage's gradients to the coordinator.
  virtual void powers(stage_powers powers) = 0;
};

}  // namespace troupe
