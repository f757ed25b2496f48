#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/rank/stage_runner.hpp"
#include "troupe/engine/device/memory.hpp"

namespace troupe {

/// Executes a rank's part of the plan. The executor tells which op starts;
/// sends and receives are done here, all others by the rank's stages, which get
/// the values that the op reads and give those that it makes. One op is
/// launched at a time: until its stage has run it, the rank's device is the
/// stage's. Errors leave with `current_op` telling where the rank stood. One
/// thread at a time.
class rank_runner {
 public:
  rank_runner(rank_setup setup, rank_ports& ports);
  rank_runner(const rank_runner&) = delete;
  rank_runner& operator=(const rank_runner&) = delete;

  /// Adds a stage of the rank, before the first message.
  void add(stage_setup stage);

  void on(const begin_step& message);
  /// Runs an op that was handed to `rank_ports::run`.
  void run(stage_instance stage, run_op request);
  void on(stage_tensors message);
  void on(loaded_data message);
  void on(const chosen_tokens& message);
  void on(collective_result message);
  void on(const norm_verdict& message);

  event_source source() const;
  std::string current_op() const;

 private:
  const plan_op& op_at(std::uint32_t op) const { return step_->plan->ops[op]; }
  void require_current(std::int64_t serial, const char* what) const;
  lane_executor& begin_executor(const step_context& step);

  void advance();
  void take_messages();
  void start(std::uint32_t op);
  void transfer(std::uint32_t op);
  void launch(std::uint32_t op);
  bool runs_beside(std::uint32_t op) const;
  void feed_back(const op_launched& answer);
  void wait();
  void end_stages();
  void finish();
  void show(progress_board::state state) const;

  rank_setup setup_;
  rank_ports& ports_;
  stage_device device_;
  op_values values_;
  step_pointer step_;
  lane_executor* executor_ = nullptr;  // the step's plan's
  rank_done report_;
  /// A verdict may come before the step begins here, as the powers of one
  /// replica are enough for it.
  std::optional<norm_verdict> norm_;
  std::map<stage_instance, stage_runner> stages_;
  std::map<stage_instance, std::uint32_t> asked_;  // collectives, by stage
  std::int64_t last_compute_ = none;  // the last op of the compute streams
  bool ended_ = false;                // all ops have
  std::int32_t ending_stage_ = none;  // that runs its `stage_runner::end`
  std::vector<stage_tensors> early_;  // of steps that have not begun here
  std::int64_t waits_since_ = 0;      // 0: an op is being launched
  std::int64_t usable_bytes_ = usable_bytes();
};

}  // namespace troupe
