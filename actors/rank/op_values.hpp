#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/rank/value_store.hpp"

namespace troupe {

/// "gradient of microbatch 3 slice 0 from stage 2 to stage 1".
std::string summary(const envelope& e);

/// The values that the ops of a rank read and make: an op is given its values
/// and its microbatch, and its outputs are kept. A send takes a value out and
/// gives it to another rank; a receive is posted, and puts the value there once
/// its message has come. Microbatches are asked of the loader some ahead of the
/// ops that take them. Notes when inputs came, and the messages that brought
/// them. One thread at a time.
class op_values {
 public:
  op_values(const rank_setup& setup, rank_ports& ports,
            const stage_device& device)
    : setup_(setup), ports_(ports), device_(device) {}

  /// By instance of a stage that reads data: its microbatches, as it takes
  /// them.
  using data_orders = std::map<stage_instance, std::vector<std::int32_t>>;

  /// Asks for the first microbatches of each stage. The orders are the plan's,
  /// and outlive the step.
  void begin(const step_pointer& step, const data_orders& wanted);
  /// A microbatch of this step. Throws `internal` if it is of another one, or
  /// there.
  void put(loaded_data message);
  /// Moves what the op reads into the request, and adds what its stream waits
  /// for besides: the collectives that the plan has on that stream, and the
  /// gather of its stage's parameters. `waits_since`: the host's time, in ns,
  /// since when the rank waits; 0: it does not. Throws `internal` if something
  /// is not there.
  void take(const plan_op& op, run_op& request, op_record& record,
            std::int64_t waits_since);
  /// Keeps what the op made.
  void keep(op_launched& answer);
  /// `now`: in host ns.
  void send(const plan_op& op, std::int64_t now);
  void post(std::uint32_t receive);
  /// Takes a message of the running step. Throws `mismatch` for one that the
  /// plan does not send to this rank.
  void on(stage_tensors message);
  /// Takes in messages whose receives are posted, and returns those.
  std::vector<std::uint32_t> complete();

  /// The first value that an op still lacks, or, if it has all, whether it
  /// lacks its microbatch.
  struct missing_input {
    std::optional<std::uint8_t> value;  // which of for_each_input's
    bool data = false;
  };
  missing_input missing(const plan_op& op) const;

  /// When the stage's parameters are whole, if no op has waited for it.
  event_handle take_gathered(stage_instance stage);
  /// Reduced gradients that no op of the plan reads.
  std::optional<held_value> take_unread(stage_instance stage);

  /// Tokens that entered the model here in this step, and its messages as they
  /// were taken, if a monitor wants them.
  std::int64_t tokens() const { return tokens_; }
  std::vector<message_record> take_messages() {
    return std::exchange(messages_, {});
  }
  /// Throws `internal`, naming what no op has taken.
  void require_nothing_left() const;

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

  void require_expected(const stage_tensors& message) const;

  const rank_setup& setup_;
  rank_ports& ports_;
  const stage_device& device_;
  step_pointer step_;
  value_store values_;
  const data_orders* wanted_ = nullptr;
  std::vector<held_data> data_;                  // few at a time
  std::map<stage_instance, std::size_t> asked_;  // for so many
  std::int64_t tokens_ = 0;
  std::vector<message_record> messages_;
  /// A message's receive is posted; the message has arrived.
  enum : std::uint8_t { posted = 1, seen = 2 };
  std::vector<std::uint8_t> states_;    // by message
  std::vector<stage_tensors> arrived_;  // in that order
  std::vector<event_handle> awaited_;   // for the compute stream's next op
  std::map<stage_instance, event_handle> gathered_;  // for its stage's next op
};

}  // namespace troupe
