#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors/rank/collective_ops.hpp"
#include "troupe/actors/rank/microbatch_queue.hpp"
#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/plan_executors.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/rank/transfer_ops.hpp"

namespace troupe {

/// What a rank actor decides and does, apart from sending: executes its part of
/// the plan. The executor tells which op starts; sends and receives are done
/// here, all others by the stages, which get the values that the op reads and
/// give those that it makes. One op is launched at a time: until its stage
/// answers, the rank's device is the stage's. Errors leave with `current_op`
/// telling where the rank stood. One thread at a time.
class rank_runner {
 public:
  rank_runner(rank_setup setup, rank_ports& ports);
  rank_runner(const rank_runner&) = delete;
  rank_runner& operator=(const rank_runner&) = delete;

  void on(const begin_step& message);
  void on(op_launched answer);
  void on(stage_tensors message);
  void on(loaded_data message);
  void on(const chosen_tokens& message);
  void on(collective_result message);
  void on(const norm_known& message);
  void on(stage_done report);

  event_source source() const;
  std::string current_op() const;

 private:
  const plan_op& op_at(std::uint32_t op) const { return step_->plan->ops[op]; }
  void require_current(std::int64_t serial, const char* what) const;

  void advance();
  void take_messages();
  void start(std::uint32_t op);
  void transfer(std::uint32_t op);
  void launch(std::uint32_t op);
  bool runs_beside(std::uint32_t op);
  void feed_back(const op_launched& answer);
  void wait();
  void end_stages();
  void finish();
  void require_nothing_left() const;
  void show(progress_board::state state) const;

  rank_setup setup_;
  rank_ports& ports_;
  stage_device device_;
  value_store values_;
  microbatch_queue data_;
  op_values op_values_;
  transfer_ops transfers_;
  collective_ops collectives_;
  plan_executors plans_;

  step_pointer step_;
  executed_plan* plan_ = nullptr;
  lane_executor* executor_ = nullptr;  // the plan's
  rank_done report_;
  std::vector<stage_instance> stages_;  // of this rank
  std::int64_t last_compute_ = none;    // the op of those streams before
  bool ending_ = false;
  std::vector<stage_tensors> early_;  // of steps that have not begun here
  std::int64_t waits_since_ = 0;      // 0: an op is being launched
};

}  // namespace troupe
