#include "troupe/engine/plan/compile/compile.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;
using testing::lane_text;
using testing::make_plan;

namespace {

std::uint32_t find(const plan& of, const std::string& name) {
  for (std::uint32_t i = 0; i < of.ops.size(); ++i)
    if (to_text(of, i) == name)
      return i;
  FAIL("no op " << name);
  return 0;
}

std::string inputs(const plan& of, const std::string& name) {
  std::string text;
  for (const auto input : of.dependencies_of(of.ops[find(of, name)]))
    text += (text.empty() ? "" : " ") + to_text(of, input);
  return text;
}

}  // namespace

TEST_CASE("transfers, norms and updates are added to the lanes") {
  const auto of = make_plan("1f1b", {.ranks = 2, .microbatches = 2});
  CHECK(lane_text(of, 0)
        == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0NORM 0UPDATE");
  CHECK(lane_text(of, 1)
        == "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1NORM 1UPDATE");
}

TEST_CASE("replicas reduce a stage right after its last backward") {
  const auto of =
    make_plan("gpipe", {.ranks = 1, .microbatches = 1}, {.data_parallel = 2});
  CHECK(lane_text(of, 0) == "0F0 0B0 0REDUCE_GRAD 0NORM 0UPDATE");
  CHECK(inputs(of, "0REDUCE_GRAD") == "0B0");
  CHECK(inputs(of, "0NORM") == "0REDUCE_GRAD");
  CHECK(of.ops[find(of, "0REDUCE_GRAD")].stream == stream_kind::collective);
}

TEST_CASE("an op depends on what makes its inputs") {
  const auto of = make_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 2});
  CHECK(inputs(of, "0F0").empty());
  CHECK(inputs(of, "0SEND_F0") == "0F0");
  CHECK(inputs(of, "1RECV_F0") == "0SEND_F0");
  CHECK(inputs(of, "1F0") == "1RECV_F0");
  CHECK(inputs(of, "3B0") == "3F0");
  CHECK(inputs(of, "1B0") == "1F0 1RECV_B0");
  CHECK(inputs(of, "1NORM") == "1B1");
  CHECK(inputs(of, "3UPDATE") == "3NORM");
}

TEST_CASE("stages of one rank exchange no messages") {
  const auto of = make_plan("gpipe", {.ranks = 1, .microbatches = 2});
  CHECK(of.messages.empty());
  const auto two = make_plan(
    "breadth_first", {.ranks = 1, .stages_per_rank = 2, .microbatches = 1});
  CHECK(two.messages.empty());
  CHECK(inputs(two, "1F0") == "0F0");
  CHECK(inputs(two, "0B0") == "0F0 1B0");
}

TEST_CASE("with a global norm every update waits for the norms of all") {
  const auto of =
    make_plan("1f1b", {.ranks = 2, .microbatches = 1}, {.global_norm = true});
  CHECK(inputs(of, "0UPDATE") == "0NORM 1NORM");
  CHECK(inputs(of, "1UPDATE") == "0NORM 1NORM");
}

TEST_CASE("a schedule without backwards gets a plan without updates") {
  const auto of = make_plan("forward_only", {.ranks = 2, .microbatches = 1});
  CHECK_FALSE(of.training);
  CHECK(lane_text(of, 1) == "1RECV_F0 1F0");
  CHECK(of.channels.size() == 1);
}

TEST_CASE("messages are numbered by channel and sequence") {
  const auto of = make_plan("1f1b", {.ranks = 3, .microbatches = 4});
  REQUIRE(of.channels.size() == 4);
  std::int32_t index = 0;
  for (std::size_t c = 0; c < of.channels.size(); ++c) {
    CHECK(of.channels[c].messages == 4);
    for (std::int32_t k = 0; k < 4; ++k, ++index) {
      const auto& each = of.messages[static_cast<std::size_t>(index)];
      CHECK(each.channel == static_cast<std::int32_t>(c));
      CHECK(each.sequence == k);
      CHECK(of.ops[each.send].message == index);
      CHECK(of.ops[each.receive].message == index);
      CHECK(of.ops[each.producer].microbatch == k);
      CHECK(of.ops[each.consumer].microbatch == k);
    }
  }
}

TEST_CASE("credits are what the lanes allow in flight, or fewer if asked") {
  const schedule_shape shape{.ranks = 3, .microbatches = 8};
  const auto free = make_plan("1f1b", shape);
  CHECK(free.channels[0].bound == 3);  // 0->1: the warm-up and one more
  CHECK(free.channels[0].credits == 3);
  CHECK(make_plan("gpipe", shape).channels[0].bound == 8);
  const auto capped = make_plan("1f1b", shape, {.credits = 2});
  CHECK(capped.channels[0].bound == 3);
  CHECK(capped.channels[0].credits == 2);
}

TEST_CASE("a plan's text reads back as itself, however odd its name") {
  auto named = compile(make_schedule("1f1b", {2, 1, 2}));
  for (const auto& name : {std::string("short"), std::string(300, 'n'),
                           "g\x97" + std::string(99, 'P'),
                           std::string(40, '\x01'), std::string(101, '\xff')}) {
    named.schedule_name = "";
    auto text = to_text(named);
    text.replace(text.find("name "), 5, "name " + name);
    const auto again = to_text(plan_from_text(text));
    CHECK(to_text(plan_from_text(again)) == again);
  }
}

TEST_CASE("a plan's text reads back as the same plan") {
  for (const auto& row : builtin_schedules())
    for (const auto global_norm : {false, true}) {
      const auto of =
        make_plan(row.name, testing::small_shape(row),
                  {.data_parallel = 2,
                   .credits = 2,
                   .global_norm = global_norm
                                  && testing::takes_global_norm(
                                    row, testing::small_shape(row))});
      CHECK(plan_from_text(to_text(of)) == of);
    }
}

TEST_CASE("a plan of no replicas, or of fewer than 0 credits, is refused") {
  const auto lanes = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  CHECK_THROWS_AS(compile(lanes, {.data_parallel = 0}), error);
  CHECK_THROWS_AS(compile(lanes, {.credits = -1}), error);
}
