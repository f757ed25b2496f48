#include "troupe/schedules/generation.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/schedules/validate.hpp"

using namespace troupe;

TEST_CASE("every rank runs a position of all microbatches before the next") {
  const auto lanes = generation_schedule(placement::looped(2, 4), 3, 2);
  std::string text;
  for (const auto& lane : lanes.lanes) {
    for (const auto& op : lane)
      text += std::to_string(op.stage) + "F" + std::to_string(op.microbatch)
              + "." + std::to_string(op.slice) + " ";
    text += "\n";
  }
  CHECK(text
        == "0F0.0 0F1.0 2F0.0 2F1.0 0F2.0 2F2.0 "
           "0F0.1 0F1.1 2F0.1 2F1.1 0F2.1 2F2.1 \n"
           "1F0.0 1F1.0 3F0.0 3F1.0 1F2.0 3F2.0 "
           "1F0.1 1F1.1 3F0.1 3F1.1 1F2.1 3F2.1 \n");
}

TEST_CASE("generation is a legal order on every placement") {
  for (const auto& places : {placement::looped(1, 1), placement::looped(3, 6),
                             placement::v_shaped(2), placement::waves(2, 8),
                             placement::two_directions(4)})
    for (const std::int32_t microbatches : {1, 2, 7}) {
      const auto lanes = generation_schedule(places, microbatches, 3);
      CHECK_NOTHROW(validate(lanes));
      CHECK_FALSE(is_training(lanes));
    }
}
