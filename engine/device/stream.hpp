#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace troupe {

/// A point in the work of a stream: it is reached once all work given to the
/// stream before it is done. Any thread may query it. Each function throws
/// `error` (device) if the device has failed.
class device_event {
 public:
  virtual ~device_event() = default;

  /// Doesn't wait.
  virtual bool reached() const = 0;
  /// Waits on the host. Never used between two ops: streams wait for events
  /// instead (`device_stream::wait_for`).
  virtual void wait() const = 0;
  /// Device time between two points, in seconds; both must be reached, and of
  /// one device.
  virtual double seconds_since(const device_event& earlier) const = 0;
};

using event_handle = std::shared_ptr<const device_event>;

/// While it lives, the launches of the thread that made it go to a stream and
/// its device. Scopes may be nested; each ends on its own thread, the last one
/// first.
class stream_scope {
 public:
  virtual ~stream_scope() = default;
};

/// A queue of work on one device: runs in the order given, concurrently with
/// other streams. One thread at a time gives it work; in troupe, the device's
/// only launcher. Errors are `error`s (device).
class device_stream {
 public:
  virtual ~device_stream() = default;

  virtual c10::Device device() const = 0;
  virtual std::unique_ptr<stream_scope> enter() = 0;
  /// Records the point after all work given so far.
  virtual event_handle record() = 0;
  /// Work given afterwards starts once `event` is reached. The host does not
  /// wait. The event may be of any stream, also on another device.
  virtual void wait_for(const device_event& event) = 0;
  /// Work given to this stream reads or writes `tensor`, whose memory was
  /// allocated in another stream's scope: delays reuse of the memory until that
  /// work is done. Ignores CPU tensors and undefined ones.
  virtual void uses(const at::Tensor& tensor) = 0;
  /// Waits on the host until all work given so far is done.
  virtual void drain() = 0;
};

}  // namespace troupe
