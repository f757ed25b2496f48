#include "troupe/schedules/builtin.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using Catch::Matchers::Message;

TEST_CASE("the lanes are those of the papers") {
  CHECK(to_csv(make_schedule("gpipe", {.ranks = 2, .microbatches = 2}))
        == "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n");
  CHECK(to_csv(make_schedule("eager_1f1b", {.ranks = 2, .microbatches = 4})) ==
        "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\r\n"
        "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\r\n");
  CHECK(
    to_csv(make_schedule("breadth_first",
                         {.ranks = 1, .stages_per_rank = 2, .microbatches = 2}))
    == "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1\r\n");
  CHECK(to_csv(make_schedule(
          "depth_first",
          {.ranks = 1, .stages_per_rank = 2, .microbatches = 3, .breadth = 2}))
        == "0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1,0F2,1F2,1B2,0B2\r\n");
  CHECK(to_csv(make_schedule(
            "forward_only",
            {.ranks = 2, .stages_per_rank = 2, .microbatches = 4})) ==
        "0F0,0F1,2F0,2F1,0F2,0F3,2F2,2F3\r\n"
        "1F0,1F1,3F0,3F1,1F2,1F3,3F2,3F3\r\n");
}

TEST_CASE("depth_first in one group is breadth_first") {
  const schedule_shape all{
    .ranks = 3, .stages_per_rank = 2, .microbatches = 5, .breadth = 5};
  CHECK(make_schedule("depth_first", all).lanes
        == make_schedule("breadth_first", all).lanes);
}

// `build` has checked that every op stands once and in order on its rank.
TEST_CASE("every built-in is legal and sums gradients in order") {
  const auto ranks = GENERATE(range(1, 9));
  const auto stages_per_rank = GENERATE(range(1, 4));
  for (const auto& row : builtin_schedules()) {
    if (stages_per_rank > row.most_stages_per_rank)
      continue;
    for (auto m = 1; m <= 3 * ranks + 1; ++m) {
      const auto lanes =
        make_schedule(row.name, {.ranks = ranks,
                                 .stages_per_rank = stages_per_rank,
                                 .microbatches = m});
      if (!accumulates_in_order(lanes)
          || is_training(lanes) != (row.name != "forward_only"))
        FAIL(row.name << " " << ranks << " " << stages_per_rank << " " << m);
    }
  }
}

TEST_CASE("an unknown schedule is answered with the known ones") {
  CHECK_THROWS_MATCHES(
    make_schedule("2f2b", {}), error,
    Message("unknown schedule '2f2b': the known ones are gpipe, 1f1b, "
            "eager_1f1b, interleaved_1f1b, breadth_first, depth_first, "
            "forward_only; or give a CSV file"));
}

TEST_CASE("an illegal shape is answered with the rule and a legal value") {
  CHECK_THROWS_MATCHES(
    make_schedule("1f1b", {.stages_per_rank = 2}), error,
    Message("1f1b: stages per rank must be 1, but is 2: the nearest legal "
            "value is 1"));
  CHECK_THROWS_MATCHES(
    make_schedule("gpipe", {.ranks = 0}), error,
    Message("gpipe: ranks must be in 1..65536, but is 0: the nearest "
            "legal value is 1"));
  CHECK_THROWS_MATCHES(
    make_schedule("interleaved_1f1b", {.ranks = 4, .microbatches = -3}), error,
    Message("interleaved_1f1b: microbatches must be in 1..1048576, but is "
            "-3: the nearest legal value is 1"));
  CHECK_THROWS_MATCHES(
    make_schedule("depth_first", {.microbatches = 4, .breadth = 5}), error,
    Message("depth_first: breadth must lie in 1..4 (the microbatches), but "
            "is 5: the nearest legal value is 4"));
}
