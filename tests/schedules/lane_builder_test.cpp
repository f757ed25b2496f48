#include "troupe/schedules/lane_builder.hpp"

#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>

#include "troupe/base/error.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

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

TEST_CASE("an op of a chunk that has none left is refused") {
  const auto refuses = [](const auto& twice, const std::string& why) {
    CHECK_THROWS_MATCHES(schedule::build({.microbatches = 2},
                                         [&](lane_builder& rank) {
                                           rank.forward(chunk(0), rest());
                                           twice(rank);
                                         }),
                         error, MessageMatches(ContainsSubstring(why)));
  };
  refuses([](auto& rank) { rank.forward(chunk(0)); },
          "rank 0: chunk 0 (stage 0) has no forward left");
  refuses([](auto& rank) { rank.overlap(chunk(0), chunk(0)); },
          "has no forward left");
  for (const bool splits : {false, true})
    refuses(
      [&](auto& rank) {
        for (int i = 0; i < 3; ++i)
          splits ? rank.input_backward(chunk(0)) : rank.backward(chunk(0));
      },
      "rank 0: chunk 0 (stage 0) has no backward left: that of its last "
      "microbatch, 1, is in the lane");
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

TEST_CASE("chunks that a rank does not have are refused") {
  using call = std::function<void(lane_builder&)>;
  for (const auto which : {-1, 2, 7, INT32_MAX, INT32_MIN})
    for (const call& write :
         {call{[=](auto& rank) { rank.forward(chunk(which)); }},
          call{[=](auto& rank) { rank.forward(chunk(which), rest()); }},
          call{[=](auto& rank) { rank.backward(chunk(which)); }},
          call{[=](auto& rank) { rank.input_backward(chunk(which)); }},
          call{[=](auto& rank) { rank.overlap(chunk(which), chunk(0)); }},
          call{[=](auto& rank) { rank.overlap(chunk(0), chunk(which)); }},
          call{[=](auto& rank) { rank.forwards_left(chunk(which)); }}})
      CHECK_THROWS_MATCHES(
        schedule::build({.ranks = 2, .stages_per_rank = 2, .microbatches = 2},
                        write),
        error,
        Catch::Matchers::Message(fmt::format(
          "rank 0 has no chunk {}: it has 2, counted from 0", which)));
}

TEST_CASE("sizes out of range are refused") {
  const auto refused = [](const auto& build, const std::string& why) {
    CHECK_THROWS_MATCHES(build(), error, Catch::Matchers::Message(why));
  };
  const auto in_one = [](const auto& write) {
    return [write] { return schedule::build({.microbatches = 2}, write); };
  };
  const auto of_shape = [](const schedule_shape& shape) {
    return [shape] { return schedule::build(shape, [](lane_builder&) {}); };
  };
  const auto on = [](const placement& places) {
    return
      [places] { return schedule::build(places, 1, [](lane_builder&) {}); };
  };
  for (const auto& sizes : std::vector<std::vector<std::int32_t>>{
         {}, {3}, {1, 2}, {3, -1}, {INT32_MAX, INT32_MAX}})
    refused(in_one([&](lane_builder& rank) { rank.in_groups(sizes); }),
            fmt::format("rank 0: groups of {} microbatches; the sizes can't be "
                        "negative, and must add up to 2",
                        fmt::join(sizes, ", ")));
  refused(in_one([](lane_builder& rank) { rank.split_backwards(-1); }),
          "rank 0: split_backwards with a lag of -1; give 0 or more");
  refused([] { return even_groups(2, 0); },
          "groups must be in 1..268435456, not 0: the nearest legal value "
          "is 1");
  refused([] { return groups_of(2, 0); },
          "microbatches of a group must be in 1..268435456, not 0: the "
          "nearest legal value is 1");
  refused(of_shape({.microbatches = -3}),
          "microbatches must be in 1..268435456, not -3: the nearest legal "
          "value is 1");
  refused(of_shape({.slices = 32768}),
          "slices must be in 1..32767, not 32768: the nearest legal value "
          "is 32767");
  refused(of_shape({.ranks = 0}),
          "ranks must be in 1..268435456, not 0: the nearest legal value "
          "is 1");
  refused(of_shape({.ranks = 65536, .stages_per_rank = 65536}),
          "stages per rank must be in 1..4096, not 65536: the nearest legal "
          "value is 4096");
  refused(on({.ranks = 1}),
          "copies of the stages must be in 1..2, not 0: the nearest legal "
          "value is 1");
  refused(on({.ranks = 2, .rank_by_stage = {{0, 2}}}),
          "a placement on 2 ranks, counted from 0, has no rank 2");
  refused(on({.ranks = 2, .rank_by_stage = {{0, 1}, {1}}}),
          "a placement gives each copy of the 2 stages a rank, but one copy "
          "has 1");
}

TEST_CASE("a schedule that nothing writes is refused") {
  const auto why = Catch::Matchers::Message(
    "no function writes the lanes; give one that takes a lane_builder&");
  CHECK_THROWS_MATCHES(schedule::build({.ranks = 2}, {}), error, why);
  CHECK_THROWS_MATCHES(schedule::build(placement::v_shaped(1), 1, nullptr),
                       error, why);
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
      CHECK(rank.forwards_left(chunk(1)) == 2);
      rank.forward(chunk(0), rest());
      rank.forward(chunk(1));
      rank.overlap(chunk(1), chunk(0));
      rank.input_backward(chunk(1));
      rank.backward(chunk(1), first(5));
      rank.backward(chunk(0));
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
