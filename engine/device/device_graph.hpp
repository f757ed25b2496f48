#pragma once

#include "troupe/engine/device/stream.hpp"

namespace troupe {

/// Work of a device that was recorded (`accelerator::record_graph`), to be
/// given to it again at once: the same operations on the same memory, which
/// its owner keeps. Who lets go of it has waited for its last launch. One
/// thread at a time. Errors are `error`s (device).
class device_graph {
 public:
  virtual ~device_graph() = default;

  /// Gives all of it to the stream, behind what that was given before. The
  /// host does not wait.
  virtual void launch(device_stream& on) = 0;
};

}  // namespace troupe
