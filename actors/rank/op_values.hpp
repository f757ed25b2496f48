#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
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
/// microbatch, and its outputs are kept. Microbatches are asked of the loader
/// some ahead of the ops that take them. Notes when inputs came, and the
/// messages that brought them. One thread at a time.
class op_values {
 public:
  op_values(const rank_setup& setup, rank_ports& ports, value_store& values,
            const stage_device& device)
    : setup_(setup), ports_(ports), values_(values), device_(device) {}

  /// By instance of a stage that reads data: its microbatches, as it takes
  /// them.
  using data_orders = std::map<stage_instance, std::vector<std::int32_t>>;

  /// Asks for the first microbatches of each stage. The orders are the plan's,
  /// and outlive the step.
  void begin(const step_pointer& step, const data_orders& wanted);
  /// A microbatch of this step. Throws `internal` if it is of another one, or
  /// there.
  void put(loaded_data message);
  /// Microbatches that no op has taken.
  std::size_t data_left() const { return data_.size(); }
  /// Moves what the op reads into the request. `waits_since`: the host's time,
  /// in ns, since when the rank waits; 0: it does not. Throws `internal` if
  /// something is not there.
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
  /// A microbatch for a stage: on the device from `ready` on, if there is one.
  struct held_data {
    stage_instance reader;
    std::int32_t microbatch = 0;
    std::int64_t sent = 0;  // by the loader, or the last stage
    std::shared_ptr<const microbatch_data> data;
    std::int16_t slice = loaded_data::all_slices;
    event_handle ready = {};
    bool brought = false;

    bool is_for(stage_instance whom, std::int32_t which,
                std::int16_t part) const {
      return reader == whom && microbatch == which
             && (slice == loaded_data::all_slices || slice == part);
    }
  };

  bool reads_data(const plan_op& op) const;
  void ask(stage_instance reader);
  void bring_data();
  held_data take_data(const plan_op& forward);
  void take_data(const plan_op& op, run_op& request, op_record& record);
  void note_message(const held_value& taken, std::int64_t waits_since);

  const rank_setup& setup_;
  rank_ports& ports_;
  value_store& values_;
  const stage_device& device_;
  step_pointer step_;
  const data_orders* wanted_ = nullptr;
  std::vector<held_data> data_;                  // few at a time
  std::map<stage_instance, std::size_t> asked_;  // for so many
  std::int64_t tokens_ = 0;
  std::vector<message_record> messages_;
};

}  // namespace troupe
