#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "troupe/engine/device/stream.hpp"

namespace troupe {

enum class transfer_kind {
  send,            // input -> peer
  receive,         // peer -> output
  broadcast,       // peer, the root: input -> everybody's output
  reduce,          // everybody's input -> output of peer, the root
  all_reduce,      // input -> output, of the same shape
  all_gather,      // input -> output, all inputs by rank
  reduce_scatter,  // input -> output, this rank's part of the result
};

enum class reduce_kind { sum, mean };

/// One call to a communicator. Tensors are contiguous and on its device; output
/// may be input, if their sizes allow it. A send has no output, nor has a
/// reduce on ranks other than its root; a receive has no input, nor has a
/// broadcast on ranks other than its root.
struct transfer {
  transfer_kind kind = transfer_kind::send;
  at::Tensor input{};
  at::Tensor output{};
  int peer = -1;
  reduce_kind how = reduce_kind::sum;
  std::string name{};  // of the op that it serves, for errors
};

/// "send of Float[4, 128] to 1 (0F3)".
std::string describe(const transfer& transfer);

/// The bytes by which the ranks of a communicator find each other: made by one
/// of them, and passed to the others by other means.
using communicator_id = std::vector<std::byte>;

struct communicator_options {
  communicator_id id{};
  int rank = 0;
  int size = 1;
  std::string name{};  // for errors: "edge 0->1"
  /// Seconds that creation, and each call, may take on the host.
  double time_out = 60;
  /// Polled while the host waits: true ends the wait with an error. May be
  /// null.
  std::function<bool()> cancelled{};
};

/// Moves tensors between the devices of several ranks, on streams: a call
/// returns once the work is enqueued, long before it is done. All ranks make
/// matching calls in the same order, also across communicators, from one thread
/// per device. Callers must ensure matching sizes: what arrives is as long as
/// what was sent.
///
/// Errors are `error`s: transport, naming communicator, call and peer;
/// invalid_argument for unsuitable tensors. After any error, abort.
class communicator {
 public:
  virtual ~communicator() = default;

  /// Gives the stream calls that start together: a send and a receive do not
  /// wait for each other. The stream is of the same device, and keeps the
  /// tensors in use: their handles may be dropped.
  virtual void enqueue(std::span<const transfer> together,
                       device_stream& stream) = 0;
  /// Ends all calls in flight, so that their streams go on, and the
  /// communicator. All remaining ranks must call it. Never throws.
  virtual void abort() noexcept = 0;
};

}  // namespace troupe
