#include "troupe/schedules/lane_builder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

TEST_CASE("a schedule of one's own reads like its description") {
  const auto one_f_one_b =
    schedule::build({.ranks = 2, .microbatches = 3}, [](lane_builder& rank) {
      rank.forward(first(rank.distance_to_last()));
      rank.repeat_one_forward_one_backward();
      rank.backward(rest());
    });
  CHECK(to_csv(one_f_one_b) ==
        "0F0,0F1,0B0,0F2,0B1,0B2\r\n"
        "1F0,1B0,1F1,1B1,1F2,1B2\r\n");
}

TEST_CASE("groups order a rank's stages: forwards up, backwards down") {
  const auto grouped =
    schedule::build({.ranks = 1, .stages_per_rank = 2, .microbatches = 3},
                    [](lane_builder& rank) {
                      rank.in_groups({2, 1});
                      rank.forward(rest());
                      rank.backward(rest());
                    });
  CHECK(to_csv(grouped)
        == "0F0,0F1,1F0,1F1,0F2,1F2,1B0,1B1,0B0,0B1,1B2,0B2\r\n");
}

TEST_CASE("lanes can be written op by op, on a placement of one's own") {
  const auto v =
    schedule::build(placement::v_shaped(1), 1, [](lane_builder& rank) {
      for (const auto stage : {0, 1})
        rank.place({.stage = stage, .kind = op_kind::forward});
      for (const auto stage : {1, 0}) {
        rank.place({.stage = stage, .kind = op_kind::input_backward});
        rank.place({.stage = stage, .kind = op_kind::weight_backward});
      }
    });
  CHECK(to_csv(v) == "0F0,1F0,1I0,1W0,0I0,0W0\r\n");
}

TEST_CASE("counts beyond what is left take what is left") {
  const auto all = schedule::build({.microbatches = 2}, [](lane_builder& r) {
    r.forward(first(-1));
    r.forward(first(100));
    r.backward(first(1));
    r.backward(rest());
  });
  CHECK(to_csv(all) == "0F0,0F1,0B0,0B1\r\n");
}

TEST_CASE("groups are even, larger first; or of one size, last one short") {
  CHECK(even_groups(11, 3) == std::vector{4, 4, 3});
  CHECK(even_groups(2, 1) == std::vector{2});
  CHECK(groups_of(7, 3) == std::vector{3, 3, 1});
}

TEST_CASE("a lane that leaves an op out is refused by name") {
  const auto forget = [](lane_builder& rank) {
    rank.forward(rest());
    rank.backward(first(1));
  };
  CHECK_THROWS_MATCHES(
    schedule::build({.microbatches = 2}, forget), error,
    Catch::Matchers::Message("rank 0, op 3: 0B1 is missing"));
}

TEST_CASE("groups are set before the first op") {
  CHECK_THROWS_MATCHES(
    schedule::build({.microbatches = 2},
                    [](lane_builder& rank) {
                      rank.forward(first(1));
                      rank.in_groups({1, 1});
                    }),
    error,
    Catch::Matchers::Message(
      "rank 0: in_groups after the first op; call it at the start"));
}

TEST_CASE("split backwards run each W a lag later") {
  const auto split = schedule::build({.microbatches = 3}, [](lane_builder& r) {
    r.split_backwards(1);
    r.forward(rest());
    r.backward(rest());
    r.weight_backward(rest());
  });
  CHECK(to_csv(split) == "0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W1,0W2\r\n");
}

TEST_CASE(
  "lanes are written by chunks, each in the order of its microbatches") {
  const auto v =
    schedule::build(placement::v_shaped(1), 2, [](lane_builder& rank) {
      CHECK(rank.forwards_left(1) == 2);
      rank.forward(0, rest());
      rank.forward(1);
      rank.overlap(1, 0);
      rank.input_backward(1);
      rank.backward(1, first(5));
      rank.backward(0);
      rank.weight_backward(first(5));
    });
  CHECK(to_csv(v) == "0F0,0F1,1F0,(1F1;0B0)OVERLAP_F_B,1I0,1B1,0B1,1W0\r\n");
}

TEST_CASE("stages go down the ranks and up again, or have a copy each way") {
  CHECK(placement::waves(3, 9).rank_by_stage[0]
        == std::vector{0, 1, 2, 2, 1, 0, 0, 1, 2});
  CHECK(placement::v_shaped(2).rank_by_stage[0] == std::vector{0, 1, 1, 0});
  CHECK(placement::two_directions(3).rank_by_stage
        == std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}});
}
