#include "troupe/schedules/builtin.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <troupe_paths.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "shapes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"
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

TEST_CASE("the lanes of split backwards are those of the papers") {
  CHECK(to_csv(make_schedule("zb_h1", {.ranks = 2, .microbatches = 4})) ==
        "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0F3,0I2,0W2,0I3,0W3\r\n"
        "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1F3,1I3,1W2,1W3\r\n");
  CHECK(to_csv(make_schedule("zb_h2", {.ranks = 2, .microbatches = 3})) ==
        "0F0,0F1,0F2,0I0,0W0,0I1,0W1,0I2,0W2\r\n"
        "1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2\r\n");
}

TEST_CASE("the lanes that rules generate stay the same") {
  const auto csv_of = [](const char* name, int ranks, int microbatches) {
    return to_csv(make_schedule(
      name,
      {.ranks = ranks, .stages_per_rank = 2, .microbatches = microbatches}));
  };
  CHECK(csv_of("v_half", 4, 3) ==
        "0F0,0F1,0F2,7F0,7I0,7F1,7I1,7W0,7W1,"
        "7F2,7I2,0I0,0W0,0I1,7W2,0W1,0I2,0W2\r\n"
        "1F0,1F1,1F2,6F0,6F1,6I0,6W0,6I1,6F2,"
        "6W1,1I0,6I2,1I1,1W0,6W2,1W1,1I2,1W2\r\n"
        "2F0,2F1,2F2,5F0,5F1,5I0,5F2,5I1,2I0,"
        "5W0,2I1,5I2,2W0,5W1,2I2,2W1,5W2,2W2\r\n"
        "3F0,4F0,3F1,4F1,3F2,4F2,4I0,3I0,4I1,"
        "3I1,4W0,3W0,4I2,3I2,4W1,3W1,4W2,3W2\r\n");
  CHECK(csv_of("v_min", 3, 4) ==
        "0F0,0F1,0F2,5F0,5I0,5W0,5F1,5I1,0I0,0W0,0F3,5W1,"
        "5F2,5I2,0I1,0W1,5W2,5F3,5I3,0I2,0W2,5W3,0I3,0W3\r\n"
        "1F0,1F1,4F0,4I0,4F1,4W0,1I0,1F2,4I1,1W0,4F2,4W1,"
        "1I1,1F3,4I2,1W1,4F3,4W2,1I2,4I3,1W2,4W3,1I3,1W3\r\n"
        "2F0,3F0,2F1,3F1,3I0,2I0,3W0,2W0,2F2,3F2,3I1,2I1,"
        "3W1,2W1,2F3,3F3,3I2,2I2,3W2,2W2,3I3,2I3,3W3,2W3\r\n");
  CHECK(csv_of("hanayo", 2, 4) ==
        "0F0,0F1,0F2,3F0,3B0,3F1,3B1,3F2,"
        "0F3,3B2,0B0,3F3,3B3,0B1,0B2,0B3\r\n"
        "1F0,2F0,1F1,2F1,1F2,2B0,2F2,1B0,"
        "2B1,1F3,2F3,1B1,2B2,1B2,2B3,1B3\r\n");
}

TEST_CASE("slices ascend in forwards and descend in backwards") {
  const auto lanes =
    make_schedule("seq_1f1b", {.ranks = 2, .microbatches = 2, .slices = 2});
  CHECK(to_text_form(lanes) ==
        "troupe schedule 1\nname seq_1f1b\nmicrobatches 2\nslices 2\n"
        "placement 0 1\n"
        "rank 0: 0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0\n"
        "rank 1: 1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1 1B1.0\n");
}

TEST_CASE("microbatches of DualPipe take copies of the stages from both ends") {
  const auto lanes = make_schedule("dualpipe", {.ranks = 2, .microbatches = 4});
  CHECK(to_text_form(lanes) ==
        "troupe schedule 1\nname dualpipe\nmicrobatches 4\nslices 1\n"
        "placement 0 1\nplacement 1 0\n"
        "rank 0: 0F0 1F2@1 0F1 1B2@1 (1F3@1;0B0) 1B3@1 0I1 0W1\n"
        "rank 1: 0F2@1 1F0 0F3@1 1B0 (1F1;0B2@1) 1B1 0I3@1 0W3@1\n");
}

TEST_CASE("PyTorch's own lanes are ours") {
  const auto [name, file, ranks, m] =
    GENERATE(table<const char*, const char*, int, int>(
      {{"interleaved_zb", "interleavedzb_p2_v2_m4", 2, 4},
       {"zb_v", "zbv_p2_v2_m2", 2, 2},
       {"dualpipe_v", "dualpipev_p2_v2_m4", 2, 4}}));
  CHECK(to_csv(make_schedule(
          name, {.ranks = ranks, .stages_per_rank = 2, .microbatches = m}))
        == to_csv(load_schedule(std::string{TROUPE_SOURCE_DIR}
                                + "/tests/schedules/cases/" + file
                                + ".compute.csv")));
}

namespace {

// Whether each (stage, microbatch, slice) has F and B, or F, I and W, in this
// order on the rank of its stage, and each stage and kind runs microbatches in
// ascending order; backwards run slices in descending order.
bool is_whole_and_ordered(const schedule& lanes, const schedule_shape& shape) {
  std::map<std::tuple<int, int, int>, std::string> kinds;
  std::map<std::tuple<int, int, op_kind>, std::pair<int, int>> last;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank)
    for (const auto& op : lanes.lanes[static_cast<std::size_t>(rank)]) {
      kinds[{op.stage, op.microbatch, op.slice}] += letter(op.kind);
      const std::pair place{op.microbatch,
                            is_backward(op.kind) ? -op.slice : op.slice};
      const auto [entry, isnew] =
        last.try_emplace({op.stage, op.copy, op.kind}, place);
      if (rank != lanes.placement.rank_of(op.stage, op.copy)
          || (!isnew && std::exchange(entry->second, place) >= place))
        return false;
    }
  const auto slots =
    shape.ranks * shape.stages_per_rank * shape.microbatches * shape.slices;
  return std::ssize(kinds) == slots
         && std::ranges::all_of(kinds, [&](const auto& each) {
              return each.second
                     == (is_training(lanes)
                           ? each.second.size() == 2 ? "FB" : "FIW"
                           : "F");
            });
}

}  // namespace

TEST_CASE(
  "every built-in is whole and in order for every shape that it takes") {
  for (const auto& row : builtin_schedules())
    testing::for_all_shapes([&](const schedule_shape& shape) {
      INFO(row.name << " P " << shape.ranks << " V " << shape.stages_per_rank
                    << " m " << shape.microbatches << " slices "
                    << shape.slices);
      if (!testing::takes(row, shape))
        return;
      const auto lanes = make_schedule(row.name, shape);
      if (lanes.name != row.name || !is_whole_and_ordered(lanes, shape)
          || first_out_of_order(lanes)
          || is_training(lanes) == (row.name == "forward_only"))
        FAIL();
    });
}

TEST_CASE("other shapes are refused") {
  for (const auto& row : builtin_schedules())
    testing::for_all_shapes([&](const schedule_shape& shape) {
      if (shape.ranks < 4 && !testing::takes(row, shape))
        REQUIRE_THROWS_AS(make_schedule(row.name, shape), error);
    });
}

TEST_CASE("an unknown schedule is answered with the known ones") {
  CHECK_THROWS_MATCHES(
    make_schedule("2f2b", {}), error,
    Message(
      "unknown schedule '2f2b': known schedules are gpipe, 1f1b, eager_1f1b, "
      "weight_stash, two_bw, interleaved_1f1b, breadth_first, depth_first, "
      "zb_h1, zb_h2, interleaved_zb, zb_v, v_half, v_min, dualpipe_v, "
      "dualpipe, seq_1f1b, hanayo, forward_only; or give a CSV file"));
  CHECK_THROWS_MATCHES(make_schedule("1fb1", {}), error,
                       Message("unknown schedule '1fb1'; did you mean 1f1b?"));
}

TEST_CASE("an illegal shape is answered with the rule and a legal value") {
  CHECK_THROWS_MATCHES(
    make_schedule("1f1b", {.stages_per_rank = 2}), error,
    Message("1f1b: stages per rank must be 1, not 2: the nearest legal "
            "value is 1 (--stages-per-rank)"));
  CHECK_THROWS_MATCHES(
    make_schedule("gpipe", {.ranks = 0}), error,
    Message("gpipe: ranks must be in 1..65536, not 0: the nearest "
            "legal value is 1 (--ranks)"));
  CHECK_THROWS_MATCHES(
    make_schedule("interleaved_1f1b", {.ranks = 4, .microbatches = -3}), error,
    Message("interleaved_1f1b: microbatches must be in 1..1048576, not "
            "-3: the nearest legal value is 1 (--microbatches)"));
  CHECK_THROWS_MATCHES(
    make_schedule("depth_first", {.microbatches = 4, .breadth = 5}), error,
    Message("depth_first: breadth must lie in 1..4 (the microbatches), but "
            "is 5: the nearest legal value is 4"));
  CHECK_THROWS_MATCHES(
    make_schedule("zb_v", {.ranks = 4, .microbatches = 8}), error,
    Message("zb_v: stages per rank must be 2, not 1: the nearest legal "
            "value is 2 (--stages-per-rank)"));
  CHECK_THROWS_MATCHES(
    make_schedule("hanayo", {.ranks = 3, .stages_per_rank = 3}), error,
    Message("hanayo: stages per rank must be even and in 2..1398100, not 3: "
            "the nearest legal values are 2 and 4 (--stages-per-rank)"));
  CHECK_THROWS_MATCHES(
    make_schedule("dualpipe", {.ranks = 3, .microbatches = 8}), error,
    Message("dualpipe: ranks must be even and in 2..1024, not 3: the "
            "nearest legal values are 2 and 4 (--ranks)"));
  CHECK_THROWS_MATCHES(
    make_schedule("dualpipe", {.ranks = 4, .microbatches = 6}), error,
    Message("dualpipe: microbatches must be even and in 8..1048576 (at least "
            "2 P), not 6: the nearest legal value is 8 (--microbatches)"));
  CHECK_THROWS_MATCHES(
    make_schedule("seq_1f1b", {.microbatches = 4, .slices = 0}), error,
    Message("seq_1f1b: slices must be in 1..32767, not 0: the nearest "
            "legal value is 1 (--slices)"));
  CHECK_THROWS_MATCHES(make_schedule("gpipe", {.microbatches = 4, .slices = 2}),
                       error,
                       Message("gpipe: slices must be 1, not 2: the nearest "
                               "legal value is 1 (--slices)"));
  CHECK_THROWS_MATCHES(
    make_schedule("zb_v", {.ranks = 1025, .stages_per_rank = 2}), error,
    Message("zb_v: ranks must be in 1..1024, not 1025: the nearest legal "
            "value is 1024 (--ranks)"));
  CHECK_THROWS_MATCHES(
    make_schedule("seq_1f1b", {.ranks = 65536, .slices = 65}), error,
    Message("seq_1f1b: slices must be in 1..64, not 65: the nearest legal "
            "value is 64 (--slices)"));
}

TEST_CASE(
  "sizes that are not given are those with which a schedule makes sense") {
  const auto sizes = [](const char* name, schedule_shape shape) {
    const auto found = with_usual_sizes(name, shape);
    return std::pair(found.stages_per_rank, found.slices);
  };
  constexpr schedule_shape none{.stages_per_rank = 0, .slices = 0};
  for (const auto* name :
       {"interleaved_1f1b", "breadth_first", "depth_first", "interleaved_zb",
        "zb_v", "v_half", "v_min", "dualpipe_v", "hanayo"})
    CHECK(sizes(name, none) == std::pair(2, 1));
  for (const auto* name : {"1f1b", "dualpipe", "forward_only", "own.csv"})
    CHECK(sizes(name, none) == std::pair(1, 1));
  CHECK(sizes("seq_1f1b", none) == std::pair(1, 4));
  CHECK(sizes("zb_v", {.stages_per_rank = 1, .slices = 3}) == std::pair(1, 3));
  for (const auto& row : builtin_schedules()) {
    auto shape = with_usual_sizes(row.name, none);
    shape.ranks = 4;
    shape.microbatches = 8;
    CHECK(make_schedule(row.name, shape).ranks() == 4);
  }
}
