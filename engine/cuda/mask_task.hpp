#pragma once

#include <cstdint>

#include "troupe/engine/device/philox.hpp"

namespace troupe {

/// What the kernel of `device_kernels::fill_mask` reads and writes.
struct mask_task {
  std::uint8_t* mask = nullptr;
  std::int64_t count = 0;
  philox_stream numbers;
  const philox_key* key = nullptr;  // that of the numbers, if given
  std::uint32_t threshold = 0;
};

}  // namespace troupe
