#pragma once

#include <c10/core/Device.h>

namespace troupe {

/// A device's number, counted as CUDA does, as LibTorch's type.
inline c10::DeviceIndex index_of(int device) {
  return static_cast<c10::DeviceIndex>(device);
}

}  // namespace troupe
