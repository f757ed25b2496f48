#include "troupe/engine/plan/values.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

#include "../../says.hpp"
#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/forward_part.hpp"
#include "troupe/schedules/text_form.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::vector<std::int32_t> of_stage(const plan& plan, std::size_t stage) {
  return versions_of(plan)[stage];
}

}  // namespace

TEST_CASE("weight_stash: an update after each backward, the newest is read") {
  const auto of = make_plan("weight_stash", {.ranks = 3, .microbatches = 6});
  CHECK(of_stage(of, 0) == std::vector<std::int32_t>{0, 0, 0, 1, 2, 3});
  CHECK(of_stage(of, 1) == std::vector<std::int32_t>{0, 0, 1, 2, 3, 4});
  CHECK(of_stage(of, 2) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
  CHECK(staleness_of(of) == std::vector<std::int32_t>{2, 1, 0});
  CHECK(staleness_of(make_plan("1f1b", {.ranks = 3, .microbatches = 6}))
        == std::vector<std::int32_t>{0, 0, 0});
}

TEST_CASE("two_bw: all of a group read the version of one update before") {
  const auto of = make_plan("two_bw", {.ranks = 3, .microbatches = 8});
  for (std::size_t stage = 0; stage < 3; ++stage)
    CHECK(of_stage(of, stage)
          == std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 1, 1});
  CHECK(staleness_of(of) == std::vector<std::int32_t>{1, 1, 1});
  CHECK_THROWS(
    make_plan("two_bw", {.ranks = 3, .microbatches = 8, .breadth = 2}));
}

// A pipeline without flushes is idle only while it fills and drains.
TEST_CASE("updates within a step cost no idle time, at most P - r updates") {
  for_all_shapes([](const schedule_shape& shape) {
    if (shape.stages_per_rank > 1 || shape.slices > 1)
      return;
    const auto flushed = simulate(make_plan("1f1b", shape)).makespan;
    for (const auto* name : {"weight_stash", "two_bw"}) {
      const auto of = make_plan(name, shape);
      REQUIRE(simulate(of).makespan == flushed);
      const auto staleness = staleness_of(of);
      for (std::int32_t r = 0; r < shape.ranks; ++r)
        REQUIRE(staleness[std::size_t(r)]
                == (of.update.every == 1 && of.update.lag == update_rule::newest
                      ? std::min(shape.ranks - 1 - r, shape.microbatches - 1)
                      : std::min(1, updates_of(of) - 1)));
    }
  });
}

TEST_CASE("updates within a step survive the text forms, and no CSV") {
  for (const auto* name : {"weight_stash", "two_bw"})
    for (const std::int32_t replicas : {1, 2}) {
      const schedule_shape shape{.ranks = 2, .microbatches = 5};
      const auto of = make_plan(name, shape, {.data_parallel = replicas});
      CHECK(plan_from_text(to_text(of)) == of);
      const auto lanes = make_schedule(name, shape);
      CHECK(from_text_form(to_text_form(lanes), "x") == lanes);
      CHECK_THROWS_MATCHES(to_csv(lanes), error, says("CSV can't express"));
      CHECK_THROWS_MATCHES(to_lowered_csv(of), error,
                           says("CSV can't express"));
    }
  CHECK(to_text(make_plan("weight_stash", {.ranks = 1, .microbatches = 2}))
        == "troupe plan 1\nname weight_stash\nmicrobatches 2\nslices 1\n"
           "global_norm 0\nupdate_every 1\nplacement 0\n"
           "rank 0: 0F0 0B0 0NORM0 0UPDATE0 0F1 0B1 0NORM1 0UPDATE1\n"
           "credits\n");
}

TEST_CASE("an evaluation updates nothing") {
  const auto of = compile(
    forward_part(make_schedule("two_bw", {.ranks = 2, .microbatches = 4})));
  CHECK(of.update == update_rule{});
  CHECK(std::ranges::count(of.ops, plan_op_kind::update, &plan_op::kind) == 0);
}

TEST_CASE("a version lives until the last backward that reads it") {
  // Rank 0 holds at most two versions beside the newest, rank 1 one at the
  // moment of an update.
  const auto of = make_plan("weight_stash", {.ranks = 2, .microbatches = 6});
  const auto bytes =
    peak_bytes(of, simulate(of), parse_sizes("parameters=0,version=1"));
  CHECK(bytes == std::vector<double>{1, 0});
  const auto buffered = make_plan("two_bw", {.ranks = 2, .microbatches = 6});
  CHECK(peak_bytes(buffered, simulate(buffered),
                   parse_sizes("parameters=0,version=1"))
        == std::vector<double>{1, 1});
}

TEST_CASE("what updates within a step can't have is refused by name") {
  const auto refusal = [](schedule lanes) {
    try {
      compile(lanes);
    } catch (const error& reason) {
      return std::string(reason.what());
    }
    return std::string("none");
  };
  auto lanes = make_schedule("zb_h1", {.ranks = 2, .microbatches = 4});
  lanes.update = {.every = 1};
  CHECK(refusal(lanes)
        == "zb_h1: 0I0 splits a backward, which updates within a step do not "
           "allow; use B");
  lanes =
    make_schedule("seq_1f1b", {.ranks = 2, .microbatches = 4, .slices = 2});
  lanes.update = {.every = 2};
  CHECK(refusal(lanes)
        == "seq_1f1b: a schedule that updates within a step has one copy of "
           "each stage, and no slices");
  lanes = make_schedule("gpipe", {.ranks = 1, .microbatches = 2});
  lanes.update = {.every = 3};
  CHECK(refusal(lanes)
        == "gpipe: updates every 3 microbatches with a lag of -1 are not "
           "possible with 2 microbatches");
  lanes.update = {.every = 1, .lag = 0};
  CHECK(refusal(lanes)
        == "gpipe: the lanes wait for each other: rank 0 at 0F1 waits for 0B0, "
           "which comes later on rank 0");
  std::ranges::swap(lanes.lanes[0][0], lanes.lanes[0][1]);
  CHECK(refusal(lanes)
        == "gpipe: 0F0 comes after a later microbatch; with updates within a "
           "step they must ascend");
  lanes = make_schedule("weight_stash", {.ranks = 2, .microbatches = 2});
  CHECK_THROWS_MATCHES(compile(lanes, {.global_norm = true}), error,
                       says("weight_stash: its stages update independently"));
}

TEST_CASE("plans whose updates stand in the wrong place are refused") {
  const auto refusal = [](const std::string& lane) {
    try {
      plan_from_text(
        "troupe plan 1\nname own\nmicrobatches 2\nslices 1\n"
        "global_norm 0\nupdate_every 1\nplacement 0\nrank 0: "
        + lane + "\ncredits\n");
    } catch (const error& reason) {
      return std::string(reason.what());
    }
    return std::string("none");
  };
  CHECK(refusal("0F0 0F1 0B0 0NORM0 0UPDATE0 0B1 0NORM1 0UPDATE1") == "none");
  CHECK(refusal("0F0 0F1 0B0 0B1 0NORM0 0UPDATE0 0NORM1 0UPDATE1")
        == "text, rank 0, op 3: 0B1 comes before the update of the preceding "
           "microbatches");
  CHECK(refusal("0F0 0F1 0NORM0 0B0 0UPDATE0 0B1 0NORM1 0UPDATE1")
        == "text, rank 0, op 2: 0NORM0 comes before 1 backwards of its stage");
  CHECK(refusal("0F0 0F1 0B0 0NORM0 0UPDATE0 0B1 0NORM 0UPDATE1")
        == "text, rank 0, op 6: 0NORM does not name the last microbatch of an "
           "update, of 1 each");
  CHECK(refusal("0F0 0F1 0B0 0NORM0 0UPDATE0 0UPDATE0 0B1")
        == "text, rank 0, op 5: 0UPDATE0 appears twice; remove one");
}
