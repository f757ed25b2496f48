#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/plan_executors.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/reduction/reducer_core.hpp"

namespace troupe {

/// What a rank does for collectives: gives a stage's part to the reducer of its
/// group, and keeps the result as a value of the plan; and gives updates the
/// verdict on the norm of all stages, if the rank is to wait for it. One thread
/// at a time.
class collective_ops {
 public:
  collective_ops(const rank_setup& setup, rank_ports& ports,
                 value_store& values)
    : setup_(setup), ports_(ports), values_(values) {}

  /// Takes a verdict that came before the step began here, as the powers of one
  /// replica are enough for it.
  void begin(const step_pointer& step, executed_plan& plan);

  /// A stage has handed on its part. Returns whether the collective has ended;
  /// otherwise `collective_result` will tell.
  bool start(op_launched& answer);
  /// Returns the op that has ended. Throws `internal` for an answer to no
  /// question.
  std::uint32_t on(collective_result message);
  /// Of this step or a later one; others, and repeated ones, are ignored.
  void on(const norm_known& message);
  /// Adds what an op of the compute stream waits for besides its inputs: the
  /// collectives that the plan has on that stream, and the gather of its
  /// stage's parameters. An update also gets the verdict on the norm.
  void add_waits(const plan_op& op, run_op& request, op_record& record);
  /// When the stage's parameters are whole, if no op has waited for it.
  event_handle take_gathered(stage_instance stage);
  /// Reduced gradients that no op of the plan reads.
  std::optional<held_value> take_unread(stage_instance stage);

 private:
  reducer_core& reducer_of(stage_instance owner, bool sums);
  void keep(std::uint32_t op, collective_result message);

  const rank_setup& setup_;
  rank_ports& ports_;
  value_store& values_;
  step_pointer step_;
  executed_plan* plan_ = nullptr;
  std::optional<norm_known> norm_;
  std::map<stage_instance, std::uint32_t> asked_;  // op by stage
  std::vector<event_handle> awaited_;  // for the compute stream's next op
  std::map<stage_instance, event_handle> gathered_;  // for its stage's next op
  /// The groups in reach of the rank's device: by stage, or by copy for
  /// tied gradients.
  std::map<stage_instance, reducer_core> reducers_;
};

}  // namespace troupe
