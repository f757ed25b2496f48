#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "troupe/actors/stage_device.hpp"
#include "troupe/actors/stage_setup.hpp"

namespace troupe {

/// Where a stage's messages go. Calls don't block.
class stage_ports {
 public:
  virtual ~stage_ports() = default;
  /// To a stage (also itself), or the rank's device if `stage` is none.
  virtual void pass(std::int32_t stage, lane_token token) = 0;
  virtual void deliver(std::int32_t stage, stage_tensors message) = 0;
  virtual void want(want_data request) = 0;
  virtual void reduce(reduce_gradients request) = 0;
  virtual void squares(stage_squares squares) = 0;
  virtual void done(stage_done report) = 0;
};

/// What a stage actor decides and does, apart from sending: takes the lane
/// token, waits for what the op at its position needs, runs it, and passes
/// the token on. One compute op a call. Errors of an op leave with
/// `current_op` telling which it was. One thread at a time.
class stage_runner {
 public:
  stage_runner(stage_setup setup, stage_ports& ports);

  void on(const begin_step& message);
  void on(lane_token token);
  void on(stage_tensors message);
  void on(loaded_data message);
  void on(const gradients_reduced& message);
  void on(const norm_known& message);

  const stage_setup& setup() const { return setup_; }
  event_source source() const;
  /// The op that the token stands at; empty without a token.
  std::string current_op() const;

 private:
  struct arrival {
    tensor_list tensors;
    std::shared_ptr<const void> receipt;
    event_handle ready;
    std::int64_t sent = 0, left = 0, arrived = 0;
    std::int32_t message = none;
    std::shared_ptr<const envelope> on_its_way = {};  // from a device
  };
  struct key_of_arrival {
    std::int64_t serial;
    bool backward;
    microbatch_key key;
    friend auto operator<=>(const key_of_arrival&,
                            const key_of_arrival&) = default;
  };

  struct made_tensors {
    tensor_list tensors;
    event_handle ready;
  };
  /// Data of a microbatch, brought to the device when its turn is near.
  struct held_data {
    std::int64_t sent;
    std::shared_ptr<const microbatch_data> data;
    bool brought = false;
    event_handle ready = {};
  };

  const plan_op& here() const;
  void advance();
  bool ready(const plan_op& op);
  void execute(const plan_op& op);
  void run_timed(const plan_op& op, op_record& record);
  void record_op(const plan_op& op, op_record& record);
  void skip(const plan_op& op);
  void run(const plan_op& op);
  void run_compute(const plan_op& op);
  void tell_norm();
  void send_out(const plan_op& op);
  void apply_update();
  tensor_list take_input(bool backward, microbatch_key key);
  void bring_data();
  void post_receives();
  void reduce();
  bool waits_for_reduction() const;
  bool reduces_here() const;
  void await_reduction();
  void hold_back_others();
  microbatch_data take_data(std::int32_t microbatch);
  void ask_for_data(std::int32_t up_to);
  void hand_on(tensor_list tensors, microbatch_key key, bool backward,
               bool skipped = false);
  void end_part();
  stage_result end_work();
  void finish_step();
  void show(progress_board::state state) const;
  void show_reduction() const;

  stage_setup setup_;
  stage_ports& ports_;
  step_pointer step_;
  std::optional<lane_token> token_;
  std::map<key_of_arrival, arrival> inbox_;
  std::deque<key_of_arrival> to_post_;  // receives, as they were announced
  std::map<std::pair<bool, microbatch_key>, made_tensors> outbox_;
  std::map<std::int32_t, held_data> data_;
  stage_device device_;
  bool asked_to_reduce_ = false;
  bool waits_to_finish_ = false;  // until the gradients are reduced
  std::int32_t asked_for_ = 0;
  std::optional<gradients_reduced> reduced_;
  std::optional<norm_known> norm_;
  std::vector<op_record> records_;
  std::vector<message_record> messages_;
  std::int64_t waits_since_ = 0;  // 0: the op at the token can run
  std::int64_t tokens_ = 0;
  op_record input_times_;  // of what the op at the token waited for last
  std::uint32_t last_op_ = 0;
};

}  // namespace troupe
