#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/actors/rank/microbatch_queue.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// A value on the rank that reads it next.
struct held_value {
  tensor_list tensors;
  std::shared_ptr<stage_state> own = {};  // of a stage: in place of tensors
  event_handle ready = {};  // when a device has made them; null: they are there
  std::int64_t sent = 0, left = 0, arrived = 0;  // host ns; 0: it did not
  std::int32_t message = none;  // that brought it; none: made on this rank
  /// Returns the sender's credit when the value is consumed.
  std::shared_ptr<const void> receipt = {};
};

/// The values of a step that a rank holds, from the op that makes or receives
/// each to the op that reads it. One thread at a time.
class value_store {
 public:
  /// Throws `internal` if the value is there.
  void put(const value& name, held_value held);
  /// Throws `internal` if it is not.
  held_value take(const value& name);
  bool has(const value& name) const;
  void clear() { held_.clear(); }
  /// The values that nobody has taken, in words; empty without any.
  std::string left() const;

 private:
  struct value_hash {
    std::size_t operator()(const value& name) const;
  };
  using value_map = std::unordered_map<value, held_value, value_hash>;
  value_map held_;
  /// Used again, so that a step allocates none.
  std::vector<value_map::node_type> spare_;
};

/// What the ops of a rank read and make: an op is given its values and its
/// microbatch, and its outputs are kept. Notes when inputs came, and the
/// messages that brought them. One thread at a time.
class op_values {
 public:
  op_values(const rank_setup& setup, value_store& values,
            microbatch_queue& data, const stage_device& device)
    : setup_(setup), values_(values), data_(data), device_(device) {}

  void begin(const step_pointer& step);
  /// Moves what the op reads into the request. `waits_since`: the host's time,
  /// in ns, since when the rank waits; 0: it does not.
  void take(const plan_op& op, run_op& request, op_record& record,
            std::int64_t waits_since);
  /// Keeps what the op made.
  void keep(op_launched& answer);
  /// The first value that an op still lacks, or, if it has all, whether it
  /// lacks its microbatch.
  struct missing_input {
    std::optional<std::uint8_t> value;  // which of for_each_input's
    bool data = false;
  };
  missing_input missing(const plan_op& op) const;

  /// Of this step: tokens that entered the model here, and messages as taken,
  /// if a monitor wants them.
  std::int64_t tokens() const { return tokens_; }
  std::vector<message_record> take_messages() {
    return std::exchange(messages_, {});
  }

 private:
  bool reads_data(const plan_op& op) const;
  void take_data(const plan_op& op, run_op& request, op_record& record);
  void note_message(const held_value& taken, std::int64_t waits_since);

  const rank_setup& setup_;
  value_store& values_;
  microbatch_queue& data_;
  const stage_device& device_;
  step_pointer step_;
  std::int64_t tokens_ = 0;
  std::vector<message_record> messages_;
};

}  // namespace troupe
