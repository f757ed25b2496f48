#include <catch2/catch_test_macros.hpp>

#include "troupe/actors/trainer_plans.hpp"

using namespace troupe;

namespace {

std::shared_ptr<const plan> of_shape(std::int32_t microbatches,
                                     std::int32_t positions) {
  plan made;
  made.microbatches = microbatches;
  made.slices = positions;
  return std::make_shared<const plan>(std::move(made));
}

}  // namespace

TEST_CASE("plans that generate are kept by their shape, the last ones") {
  generation_plans kept;
  CHECK(kept.find(1, 2) == nullptr);
  const auto first = of_shape(1, 2);
  kept.keep(first);
  kept.keep(of_shape(2, 1));
  CHECK(kept.find(1, 2) == first);
  CHECK(kept.find(2, 2) == nullptr);
  const auto most = static_cast<std::int32_t>(generation_plans::most);
  for (std::int32_t i = 0; i < most - 1; ++i) {
    kept.keep(of_shape(3, i + 1));
    CHECK(kept.find(1, 2) == first);
  }
  CHECK(kept.size() == generation_plans::most);
  CHECK(kept.find(2, 1) == nullptr);  // its use was the longest ago
  for (std::int32_t i = 0; i < most; ++i)
    kept.keep(of_shape(4, i + 1));
  CHECK(kept.size() == generation_plans::most);
  CHECK(kept.find(1, 2) == nullptr);
}
