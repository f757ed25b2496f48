#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace troupe {

/// A point in the work of a stream: it is reached when all that was given to
/// the stream before it is done. Any thread may ask. A failure of the device
/// shows here, as an `error` (device) from each of the functions.
class device_event {
 public:
  virtual ~device_event() = default;

  /// Without waiting.
  virtual bool reached() const = 0;
  /// Waits, on the host. Between two ops nothing does that: streams wait for
  /// events instead (`device_stream::wait_for`).
  virtual void wait() const = 0;
  /// Time of the device between two points, in seconds; both are reached, and
  /// of one device.
  virtual double seconds_since(const device_event& earlier) const = 0;
};

using event_handle = std::shared_ptr<const device_event>;

/// While it lives, what the thread that made it launches goes to a stream and
/// its device. Scopes may be nested; each ends on its own thread, the last one
/// first.
class stream_scope {
 public:
  virtual ~stream_scope() = default;
};

/// A queue of work of one device: what is given to it runs in that order,
/// beside the work of other streams. One thread at a time gives it work; the
/// one launcher of the device, in troupe. Errors are `error`s (device).
class device_stream {
 public:
  virtual ~device_stream() = default;

  virtual c10::Device device() const = 0;
  virtual std::unique_ptr<stream_scope> enter() = 0;
  /// The point behind all that was given so far.
  virtual event_handle record() = 0;
  /// What is given from now on starts when `event` is reached. The host does
  /// not wait. The event may be of any stream, also of another device.
  virtual void wait_for(const device_event& event) = 0;
  /// Work given to this stream reads or writes `tensor`, whose memory was
  /// allocated in the scope of another: it is not used again before that work
  /// is done. Tensors of the CPU, and undefined ones, are let pass.
  virtual void uses(const at::Tensor& tensor) = 0;
  /// Waits on the host until all that was given is done.
  virtual void drain() = 0;
};

}  // namespace troupe
