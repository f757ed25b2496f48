#include "host_block.hpp"
// The kernel needs what is defined there.
#include "troupe/engine/cuda/mask_kernel.cuh"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include "../device/expected_mask.hpp"

using namespace troupe;
using troupe::testing::expected_mask;

TEST_CASE("masks of dropout hold the numbers of their stream, or of a key") {
  constexpr philox_key key{7, 8};
  constexpr std::uint32_t threshold = 1u << 30;
  for (const std::int64_t count : {1, 63, 64, 65, 1000, 5000}) {
    const auto expected = expected_mask(count, {key, 9, 10}, threshold);
    for (const bool by_key : {false, true}) {
      CAPTURE(count, by_key);
      const auto mask = at::full({count}, 2, at::kByte);
      mask_task task;
      task.mask = mask.mutable_data_ptr<std::uint8_t>();
      task.count = count;
      task.numbers = {by_key ? philox_key{} : key, 9, 10};
      task.key = by_key ? &key : nullptr;
      task.threshold = threshold;
      run_on_host({2}, {32}, mask_kernel, task);
      CHECK(at::equal(mask, expected));
    }
  }
}
