#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/reduction/reducer.hpp"

namespace troupe {

/// "gradient of microbatch 3 slice 0 from stage 2 to stage 1".
std::string summary(const envelope& e);

/// What a rank does for ops that others take part in. A send takes a value out
/// of the rank's store and gives it to another rank; a receive is posted, and
/// puts the value there once its message has come. For a collective a stage's
/// part goes to the reducer of its group, and the result is kept as a value.
/// Updates get the verdict on the norm of all stages. One thread at a time.
class exchange_ops {
 public:
  exchange_ops(const rank_setup& setup, rank_ports& ports, value_store& values,
               const stage_device& device)
    : setup_(setup), ports_(ports), values_(values), device_(device) {}

  /// Takes a verdict that came before the step began here, as the powers of one
  /// replica are enough for it. The executor is the plan's.
  void begin(const step_pointer& step, lane_executor& executor);

  /// `now`: in host ns.
  void send(const plan_op& op, std::int64_t now);
  void post(std::uint32_t receive);
  /// A message of the step that runs. Throws `mismatch` for one that the rank
  /// can't be meant to get.
  void on(stage_tensors message);
  /// Takes in messages whose receives are posted, and returns those.
  std::vector<std::uint32_t> complete();
  /// Messages that no receive has taken.
  std::size_t left() const { return arrived_.size(); }

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
  void require_expected(const stage_tensors& message) const;
  reducer_core& reducer_of(stage_instance owner, bool sums);
  void keep(std::uint32_t op, collective_result message);

  const rank_setup& setup_;
  rank_ports& ports_;
  value_store& values_;
  const stage_device& device_;
  step_pointer step_;
  lane_executor* executor_ = nullptr;
  /// Of a message: its receive is posted; it has come.
  enum : std::uint8_t { posted = 1, seen = 2 };
  std::vector<std::uint8_t> states_;    // by message
  std::vector<stage_tensors> arrived_;  // in that order
  std::optional<norm_known> norm_;
  std::map<stage_instance, std::uint32_t> asked_;  // op by stage
  std::vector<event_handle> awaited_;  // for the compute stream's next op
  std::map<stage_instance, event_handle> gathered_;  // for its stage's next op
  /// The groups in reach of the rank's device: by stage, or by copy for
  /// tied gradients.
  std::map<stage_instance, reducer_core> reducers_;
};

}  // namespace troupe
