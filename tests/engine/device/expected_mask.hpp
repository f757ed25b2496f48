#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "troupe/engine/device/philox.hpp"

namespace troupe::testing {

/// A mask of dropout, uint8 [count], by the order of elements that philox.hpp
/// defines.
inline at::Tensor expected_mask(std::int64_t count,
                                const philox_stream& numbers,
                                std::uint32_t threshold) {
  auto mask = at::empty({count}, at::kByte);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto within = i % philox_group;
    const auto four = numbers.block(static_cast<std::uint64_t>(
      i / philox_group * philox_lanes + within % philox_lanes));
    const std::uint32_t all[] = {four.x, four.y, four.z, four.w};
    mask.mutable_data_ptr<std::uint8_t>()[i] =
      all[within / philox_lanes] >= threshold;
  }
  return mask;
}

}  // namespace troupe::testing
