#pragma once

#include "troupe/engine/device/stream.hpp"

namespace troupe {

/// Recorded work of a device (`accelerator::record_graph`), to be launched
/// again as a whole: the same operations on the same memory, which its owner
/// keeps. Wait for the last launch before destroying it. One thread at a time.
/// Errors are `error`s (device).
class device_graph {
 public:
  virtual ~device_graph() = default;

  /// Enqueues all of it on the stream, after earlier work. The host does not
  /// wait.
  virtual void launch(device_stream& on) = 0;
};

}  // namespace troupe
