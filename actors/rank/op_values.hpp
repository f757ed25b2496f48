#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/actors/rank/microbatch_queue.hpp"
#include "troupe/actors/rank/value_store.hpp"

namespace troupe {

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
