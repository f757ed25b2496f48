#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"

namespace troupe {

class sharded_parameters;

/// What a stage actor does: runs the ops that its rank gives it, on the stage's
/// module and the rank's device. Throws what the module throws. One thread at a
/// time.
class stage_runner {
 public:
  stage_runner(stage_setup setup, rank_ports& ports);

  void on(const begin_step& message);
  op_launched on(run_op request);
  stage_done on(end_step message);

 private:
  void run_timed(run_op& request, op_launched& answer);
  void run(run_op& request, op_launched& answer);
  tensor_lists take(run_op& request);
  void forward(run_op& request, op_launched& answer);
  std::shared_ptr<stage_state> read_version();
  void backward(run_op& request, op_launched& answer);
  void give(op_outputs made, op_launched& answer) const;
  void copy(run_op& request, op_launched& answer);
  void hand_on_gradients(op_launched& answer);
  void sum_tied(run_op& request, op_launched& answer);
  sharded_parameters& shards() const;
  void gather(op_launched& answer);
  void release(run_op& request);
  void tell_norm(run_op& request);
  void update(const std::optional<norm_known>& norm);

  stage_setup setup_;
  rank_ports& ports_;
  stage_device device_;
  step_pointer step_;
  const plan_op* running_ = nullptr;  // the op of `on(run_op)`
};

}  // namespace troupe
