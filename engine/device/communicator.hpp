#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/device/stream.hpp"

namespace troupe {

enum class transfer_kind {
  send,            // input -> peer
  receive,         // peer -> output
  broadcast,       // input of peer, the root -> everybody's output
  all_reduce,      // input -> output, of the same shape
  all_gather,      // input -> output, all inputs by rank
  reduce_scatter,  // input -> output, this rank's part of the result
};

enum class reduce_kind { sum, mean, max };

/// One call to a communicator. Tensors are contiguous and of its device;
/// output may be input, where their sizes allow it. A send has no output, a
/// receive no input, and so has a broadcast on ranks other than its root.
struct transfer {
  transfer_kind kind = transfer_kind::send;
  at::Tensor input{};
  at::Tensor output{};
  int peer = -1;
  reduce_kind how = reduce_kind::sum;
  std::string name{};  // of the op that it is for, as errors tell it
};

/// "send of Float[4, 128] to 1 (0F3)".
std::string describe(const transfer& transfer);

/// The bytes by which the ranks of a communicator find each other: made by
/// one of them, and brought to the others by other means.
using communicator_id = std::vector<std::byte>;

struct communicator_options {
  communicator_id id{};
  int rank = 0;
  int size = 1;
  std::string name{};  // what errors call it: "edge 0->1"
  /// Seconds that its making, and each call, may take on the host.
  double time_out = 60;
  /// Asked while the host waits: true ends the wait with an error. May be null.
  std::function<bool()> cancelled{};
};

/// Moves tensors between the devices of several ranks, on streams: a call
/// returns when the work is in its stream, long before it is done. All ranks
/// make matching calls in the same order, also across communicators: one
/// thread a device makes them all. Sizes are checked by those who call: what
/// arrives is as long as what was sent.
///
/// Errors are `error`s: transport, with communicator, call and peer named;
/// invalid_argument for tensors that do not fit. After any error, abort.
class communicator {
 public:
  virtual ~communicator() = default;

  /// Gives the stream one call. The stream is of the same device, and its
  /// work uses the tensors: they may be let go of.
  virtual void enqueue(const transfer& transfer, device_stream& stream) = 0;
  /// What went wrong since, in words; empty while all is well. Does not wait.
  /// Any thread may ask while no other ends the communicator.
  virtual std::string problem() = 0;
  /// Ends all calls in flight, so that their streams go on, and the
  /// communicator. All ranks that are left do so. Never throws.
  virtual void abort() noexcept = 0;
  /// Waits until all calls are done, on all ranks, and ends the communicator.
  virtual void finish() = 0;
};

/// Makes communicators for one device. Errors are `error`s (device,
/// transport).
class communicator_maker {
 public:
  virtual ~communicator_maker() = default;

  /// For all ranks of one communicator, made by one of them.
  virtual communicator_id make_communicator_id() = 0;
  /// Waits until all ranks have called it, up to the time-out.
  virtual std::unique_ptr<communicator> make_communicator(
    const communicator_options& options) = 0;
};

/// Calls between the beginning and the end of a group are made at once: a
/// send and a receive of one group do not wait for each other. Groups belong to
/// the thread that begins them, and may not be nested.
class transfer_group {
 public:
  /// Without `end`, as when an error passes: closes the group, and tells
  /// nobody how that went.
  virtual ~transfer_group() = default;
  virtual void end() = 0;
};

}  // namespace troupe
