#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/reduction/reducer.hpp"

namespace troupe {

class sharded_parameters;

/// Runs the ops of a stage, on its module and the rank's device. The stage's
/// part of a collective goes to the reducer of its group, or, where its members
/// are linked device to device, is made here. Throws what the module throws.
/// One thread at a time.
class stage_runner {
 public:
  /// The rank's setup outlives it.
  stage_runner(const rank_setup& rank, stage_setup setup, rank_ports& ports);

  void begin(step_pointer step);
  op_launched run(run_op request);
  stage_done end(end_step message);

 private:
  void run_timed(run_op& request, op_launched& answer);
  void run_by_kind(run_op& request, op_launched& answer);
  tensor_lists take(run_op& request);
  void forward(run_op& request, op_launched& answer);
  std::shared_ptr<stage_state> read_version();
  void backward(run_op& request, op_launched& answer);
  void give(op_outputs outputs, op_launched& answer) const;
  void copy(run_op& request, op_launched& answer);
  tied_sum sum_tied(run_op& request);
  void put_reduced(run_op& request);
  sharded_parameters& shards() const;
  void ask(collective_work work, op_launched& answer);
  reducer_core& reducer_of(bool sums);
  void release(run_op& request);
  void tell_norm(run_op& request);
  void update(const std::optional<norm_verdict>& norm);

  const rank_setup& rank_;
  stage_setup setup_;
  rank_ports& ports_;
  stage_device device_;
  step_pointer step_;
  const plan_op* running_ = nullptr;  // the op of `run`
  collective_work work_;              // of a joint one
  /// The collectives between devices: of the stage's group, and of the stages
  /// of its replica and copy that hold tied parameters.
  std::optional<reducer_core> reducer_, tied_reducer_;
};

}  // namespace troupe
