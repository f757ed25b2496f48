#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/byte_stream.hpp"
#include "troupe/engine/transport/frame.hpp"
#include "troupe/engine/transport/io_loop.hpp"

namespace troupe {

/// What a connection calls, on its loop's thread, one at a time.
struct connection_events {
  /// A frame is announced, its tensors not yet made. Throws to refuse it,
  /// which ends the connection.
  std::function<void(frame_type, const frame_head&)> admit = {};
  /// A whole frame. Throws alike.
  std::function<void(frame)> arrived;
  /// Once, at the end: why; empty if the other side said goodbye.
  std::function<void(const std::string& reason)> lost = {};
  /// Of the frames that follow.
  frame_limits limits = {};
};

/// Frames in both directions over a stream, in order. A frame is written from
/// where its tensors lie, and read into the tensors that are handed on. What
/// goes at once is written by the sender's thread; the rest by the loop's.
/// The number of frames that wait is the senders' to bound (credits do).
class connection : public std::enable_shared_from_this<connection> {
 public:
  /// The loop outlives the connection.
  static std::shared_ptr<connection> make(io_loop& loop, stream_pointer stream);
  virtual ~connection() = default;

  /// Begins to read. Once more, on the loop's thread and not from within an
  /// event: from now on others hear what comes.
  virtual void start(connection_events events) = 0;
  /// From any thread; never waits. Tensors are kept until they are written,
  /// and must not change until then. Dropped after the end.
  virtual void send(frame what) = 0;
  /// Says goodbye after what waits, and closes. `lost` is called no more.
  virtual void close() = 0;
  /// Breaks off at once.
  virtual void abort() = 0;
  /// Both sides have ended; all that was sent has arrived, or never will.
  virtual bool is_closed() const = 0;

  /// How long the other machine has acknowledged nothing, though something
  /// was sent: a cut cable, or a machine that is down. A stopped process's
  /// machine still does. 0 within a machine. On the loop's thread, every second
  /// or so.
  virtual std::chrono::milliseconds unacknowledged() = 0;

  virtual std::int64_t bytes_sent() const = 0;
  virtual std::int64_t bytes_received() const = 0;
  /// Frames that wait to be written.
  virtual std::int64_t waiting() const = 0;
};
using connection_pointer = std::shared_ptr<connection>;

}  // namespace troupe
