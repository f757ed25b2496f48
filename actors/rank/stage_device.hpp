#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// The way of ops to the device of their rank: tensors are brought there, ops
/// go to its streams, each dependency that crosses streams is an event, and
/// times are the device's. Without a device (a CPU) all of an op is done when
/// it returns, and nothing happens here. For the rank, or the stage that runs
/// an op for it: one at a time.
class stage_device {
 public:
  explicit stage_device(std::shared_ptr<rank_device> device)
    : device_(std::move(device)) {}

  explicit operator bool() const { return device_ != nullptr; }
  rank_device* get() const { return device_.get(); }

  /// Ops launched while it lives go to the compute stream; null on a CPU.
  std::unique_ptr<stream_scope> enter() const;
  /// The point behind all that the compute stream was given; null on a CPU.
  event_handle mark() const;
  /// Compute ops of the stage from now on come after it.
  void wait_for(const event_handle& ready);
  /// Compute ops of the rank from now on come after all that it was given.
  void join() const;

  /// A microbatch on the device; `ready` tells when.
  microbatch_data bring(const microbatch_data& data, event_handle& ready) const;
  /// Tensors that are there at `ready`, wherever they are, for the compute
  /// stream.
  tensor_list take(tensor_list tensors, const event_handle& ready);
  /// Copies for another process, in the host's memory, of tensors that are
  /// there at `ready`; waits for them.
  tensor_list to_host(const tensor_list& tensors,
                      const event_handle& ready) const;

  /// Notes the time for the ops of a step, by its number: once.
  void begin_step(std::int64_t serial) const;
  /// `begin_op` and `end_op` enclose an op that the compute stream is given,
  /// for its times. It begins when what was taken and waited for since
  /// `begin_op` is there.
  void begin_op();
  void end_op(op_launched& what);

  /// Keeps what an op's record gets its times from, when its work is done.
  void note(std::size_t record, op_launched& what);
  /// Replaces the host's times in the records of a step by the device's, once
  /// it is done with those ops.
  void settle(std::vector<op_record>& records);

 private:
  struct timed_op {
    std::size_t record;
    event_handle begin, end;
  };
  void begin_again();

  std::shared_ptr<rank_device> device_;
  event_handle begin_;
  std::vector<timed_op> timed_;
};

}  // namespace troupe
