#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/frame.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"

namespace troupe {

/// Callbacks of a connection, on its loop's thread, one at a time.
struct connection_events {
  /// A frame is announced, its tensors not yet allocated. An exception refuses
  /// the frame and ends the connection.
  std::function<void(frame_type, const frame_head&)> admit = {};
  /// A whole frame has arrived; an exception ends the connection.
  std::function<void(frame)> arrived;
  /// The connection has ended; called once. `reason` is empty if the other side
  /// said goodbye.
  std::function<void(const std::string& reason)> lost = {};
  /// Limits of every frame.
  frame_limits limits = {};
};

/// Frames in both directions over a stream, in order. A frame is written
/// directly from its tensors, and read into the tensors that are handed on. The
/// sender's thread writes what it can at once; the loop's thread writes the
/// rest. Senders must bound the number of waiting frames (with credits).
class connection : public std::enable_shared_from_this<connection> {
 public:
  /// The loop must outlive the connection.
  static std::shared_ptr<connection> make(io_loop& loop, stream_pointer stream);
  virtual ~connection() = default;

  /// Begins to read. Call once.
  virtual void start(connection_events events) = 0;
  /// Any thread may call this; it never waits. Tensors are kept until they are
  /// written, and must not change until then. Frames are dropped after the end.
  virtual void send(frame message) = 0;
  /// Writes the waiting frames, says goodbye, and closes. `lost` is not called
  /// afterwards.
  virtual void close() = 0;
  /// Ends both directions at once.
  virtual void abort() = 0;
  /// Whether both sides have ended, so that nothing is in flight any more.
  virtual bool is_closed() const = 0;

  /// How long the other machine has acknowledged nothing, though something was
  /// sent: a cut cable, or a machine that is down. A stopped process's machine
  /// still acknowledges. 0 within a machine. Call it on the loop's thread,
  /// about every second.
  virtual std::chrono::milliseconds unacknowledged() = 0;

  virtual std::int64_t bytes_sent() const = 0;
  virtual std::int64_t bytes_received() const = 0;
  /// The number of frames that wait to be written.
  virtual std::int64_t waiting() const = 0;
};
using connection_pointer = std::shared_ptr<connection>;

}  // namespace troupe
