#include "troupe/engine/plan/compile/offload.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <map>
#include <random>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/shard.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/cost/step_clock.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using Catch::Matchers::Message;
using testing::lane_text;

namespace {

std::int64_t count_of(const plan& of, plan_op_kind kind) {
  return std::ranges::count(of.ops, kind, &plan_op::kind);
}

/// The plans of all training schedules of the catalogue, in small shapes.
std::vector<plan> training_plans() {
  std::vector<plan> all;
  for (const auto& row : builtin_schedules())
    if (const auto lanes = row.make(testing::small_shape(row));
        is_training(lanes))
      all.push_back(compile(lanes));
  return all;
}

op_costs copies_cost(double each) {
  op_costs costs;
  for (const auto kind : {plan_op_kind::offload, plan_op_kind::reload})
    costs.of_kind[static_cast<std::size_t>(kind)] = each;
  return costs;
}

/// Checks that all ops of an offloaded activation are in order, the reload
/// `ahead` ops before the backward.
void check_places(const plan& of, std::int32_t ahead) {
  CAPTURE(of.schedule_name, ahead);
  for (std::int32_t rank = 0; rank < of.ranks(); ++rank) {
    const auto lane = of.lane(rank);
    for (std::size_t i = 0; i < lane.size(); ++i) {
      if (lane[i].kind != plan_op_kind::reload)
        continue;
      const auto is_its = [&](plan_op_kind kind) {
        return [&, kind](const plan_op& op) {
          return op.kind == kind && instance_of(op) == instance_of(lane[i])
                 && op.microbatch == lane[i].microbatch
                 && op.slice == lane[i].slice;
        };
      };
      const auto before = lane.first(i), behind = lane.subspan(i);
      CHECK(std::ranges::count_if(before, is_its(plan_op_kind::forward)) == 1);
      CHECK(std::ranges::count_if(before, is_its(plan_op_kind::offload)) == 1);
      const auto backward = std::ranges::find_if(behind, [&](const auto& op) {
        return is_its(plan_op_kind::backward)(op)
               || is_its(plan_op_kind::input_backward)(op);
      });
      REQUIRE(backward != behind.end());
      // Pairs count as one op.
      std::int32_t ops = 0;
      bool second = false;
      for (auto op = behind.begin(); op != backward; ++op)
        if (is_compute(op->kind)) {
          second = op->overlaps_next && !second;
          ops += second ? 0 : 1;
        }
      CHECK(ops == ahead);
    }
  }
}

}  // namespace

TEST_CASE(
  "activations that stay leave behind their sends and come back ahead") {
  const auto few = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 3});
  CHECK(offloaded(few, {.fraction = 1}) == few);  // two ops are too few
  const auto of =
    offloaded(testing::make_plan("gpipe", {.ranks = 2, .microbatches = 4}),
              {.fraction = 1});
  CHECK(lane_text(of, 0)
        == "0F0 0SEND_F0 0OFFLOAD0 0F1 0SEND_F1 0OFFLOAD1 0F2 0SEND_F2 "
           "0OFFLOAD2 0RELOAD0 0F3 0SEND_F3 0OFFLOAD3 0RECV_B0 0RECV_B1 "
           "0RELOAD1 0B0 0RECV_B2 0RELOAD2 0B1 0RECV_B3 0RELOAD3 0B2 0B3 "
           "0NORM 0UPDATE");
  // The last stage runs each backward at once.
  const auto alternating =
    offloaded(testing::make_plan("1f1b", {.ranks = 4, .microbatches = 5}),
              {.fraction = 1});
  CHECK(lane_text(alternating, 3).find("OFFLOAD") == std::string::npos);
  CHECK(testing::count(lane_text(alternating, 0), "OFFLOAD") == 5);
}

TEST_CASE("reloads stand so many ops ahead, for every schedule") {
  std::int64_t copies = 0;
  for (const auto& each : training_plans())
    for (const std::int32_t ahead : {1, 2, 3}) {
      const auto of = offloaded(each, {.fraction = 1, .ahead = ahead});
      check_places(of, ahead);
      copies += count_of(of, plan_op_kind::offload);
      CHECK(count_of(of, plan_op_kind::offload)
            == count_of(of, plan_op_kind::reload));
      for (const auto& model : testing::all_transports)
        CHECK(verify(of, model).progress == verify(each, model).progress);
      CHECK(plan_from_text(to_text(of)) == of);
      CHECK((to_json(of).find("\"offload\"") != std::string::npos)
            == offloads(of));
    }
  CHECK(copies > 100);
}

TEST_CASE("the CSV of a lowered plan holds offloads and reloads") {
  const auto of =
    offloaded(testing::make_plan("gpipe", {.ranks = 2, .microbatches = 6}),
              {.fraction = 1});
  const auto text = to_lowered_csv(of);
  CHECK(text.find("0OFFLOAD0") != std::string::npos);
  const auto read = from_lowered_csv(text);
  CHECK(to_lowered_csv(read) == text);
  CHECK(count_of(read, plan_op_kind::reload)
        == count_of(of, plan_op_kind::reload));
}

TEST_CASE("a fraction of the activations goes, evenly, or by stage") {
  const auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 12});
  const auto gone = [&](const std::string& text) {
    const auto after = offloaded(of, parse_offload(text));
    std::map<std::int32_t, std::vector<std::int32_t>> microbatches;
    for (const auto& op : after.ops)
      if (op.kind == plan_op_kind::offload)
        microbatches[op.stage].push_back(op.microbatch);
    return microbatches;
  };
  CHECK(gone("1")[0].size() == 12);
  CHECK(gone("all") == gone("1"));
  CHECK(gone("0.5")[0] == std::vector{1, 3, 5, 7, 9, 11});
  CHECK(gone("0.25")[0] == std::vector{3, 7, 11});
  CHECK(gone("all=0.5,stage.1=0").contains(1) == false);
  CHECK(gone("stage.1=1").contains(0) == false);
  CHECK(gone("stage.1=1")[1].size() == 12);
}

TEST_CASE("wrong fractions, stages and distances are refused") {
  const auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 4});
  const auto refuses = [&](const offload_options& options, const char* why) {
    CHECK_THROWS_MATCHES(offloaded(of, options), error, Message(why));
  };
  refuses({.fraction = 1.5},
          "the fraction of activations to offload is 1.5; use 0 to 1");
  refuses({.of_stage = {{2, 1}}},
          "can't offload activations of stage 2: there are 2 stages");
  refuses({.fraction = 1, .ahead = 0},
          "reloads begin 0 ops before the backward; use 1 or more");
  refuses({.fraction = 1, .ahead = 2, .least_stay = 2},
          "activations that stay for 2 ops are offloaded, and reloaded 2 ops "
          "ahead; offload only those that stay longer");
  CHECK_THROWS_MATCHES(offloaded(offloaded(of, {.fraction = 1}), {}), error,
                       Message("gpipe: the plan already offloads activations"));
  for (const auto* text : {"all.0-1=1", "stage.0-1=1", "all=0,all=1", "0,5"})
    CHECK_THROWS_AS(parse_offload(text), error);
  CHECK_THROWS_MATCHES(parse_offload("stage=1"), error,
                       Message("offload 'stage=1': the key is unknown; known "
                               "keys are all and stage.N"));
}

TEST_CASE("copies cost time on streams of their own") {
  const auto of = testing::make_plan("gpipe", {.ranks = 1, .microbatches = 8});
  const auto with = offloaded(of, {.fraction = 1});
  const auto alone = simulate(of).makespan;
  // Copies that take no longer than the ops beside them are hidden: the first
  // reload runs beside a forward of stage 1.
  CHECK(simulate(with).makespan == alone);
  CHECK(simulate(with, copies_cost(1)).makespan == alone);
  CHECK(simulate(with, copies_cost(2)).makespan == alone + 1);
  const auto early = offloaded(of, {.fraction = 1, .ahead = 2});
  CHECK(simulate(early, copies_cost(2)).makespan == alone);
  CHECK(parse_costs("offload=2,reload.1=3")
          .cost_of(0, {.kind = plan_op_kind::reload, .stage = 1})
        == 3);
}

TEST_CASE("executors with free copies have the times of the lane's clock") {
  std::mt19937 random(1);
  for (const auto& each : training_plans()) {
    const auto of = offloaded(each, {.fraction = 1});
    CAPTURE(of.schedule_name);
    auto costs = copies_cost(0);
    for (std::size_t kind = 0; kind < op_kinds; ++kind)
      if (!is_copy(static_cast<plan_op_kind>(kind)))
        costs.of_kind[kind] = double(random() % 16 + 1) / 8;
    const auto strict = simulate(of, costs);
    executor_clock clock{of, costs, lane_order::strict};
    std::vector<double> ends(static_cast<std::size_t>(of.ranks()), 0);
    clock.run_step(ends);
    CHECK(*std::ranges::max_element(ends) == strict.makespan);
    for (std::uint32_t op = 0; op < of.ops.size(); ++op)
      if (is_compute(of.ops[op].kind))
        CHECK(clock.start[op] == strict.start[op]);
    costs.of_kind[static_cast<std::size_t>(plan_op_kind::offload)] = 0.5;
    costs.of_kind[static_cast<std::size_t>(plan_op_kind::reload)] = 1.25;
    // With overtaking ops no more activations are held.
    for (const auto order : {lane_order::ready_first, lane_order::any_ready}) {
      const auto other = simulate(of, costs, order);
      for (std::size_t rank = 0; rank < ends.size(); ++rank)
        CHECK(other.in_flight[rank] <= strict.in_flight[rank]);
    }
  }
}

TEST_CASE("a rank holds less while activations are in the host's memory") {
  const auto of = testing::make_plan("gpipe", {.ranks = 1, .microbatches = 8});
  const auto with = offloaded(of, {.fraction = 1});
  const auto sizes = parse_sizes("kept=10");
  CHECK(peak_bytes(of, simulate(of), sizes).at(0) == 80);
  CHECK(host_peak_bytes(of, simulate(of), sizes).at(0) == 0);
  const auto times = simulate(with, copies_cost(1));
  CHECK(peak_bytes(with, times, sizes).at(0) == 30);
  CHECK(host_peak_bytes(with, times, sizes).at(0) == 70);
  CHECK(times.in_flight.at(0) == 2);
}

TEST_CASE("offloads and gathers of shards stand in one plan") {
  for (const auto& each : training_plans()) {
    if (each.update.every > 0)
      continue;
    const auto of = sharded(offloaded(each, {.fraction = 1}));
    CAPTURE(of.schedule_name);
    CHECK(plan_from_text(to_text(of)) == of);
    CHECK(simulate(of).makespan == simulate(each).makespan);
    check_places(of, 1);
  }
}

TEST_CASE("pictures show copies beside the ops of their rank") {
  const auto of =
    offloaded(testing::make_plan("gpipe", {.ranks = 1, .microbatches = 6}),
              {.fraction = 1});
  const auto picture = to_timeline(of, simulate(of, copies_cost(0.5)));
  const auto svg = draw_svg(picture);
  CHECK(svg.find("<title>0OFFLOAD0: ") != std::string::npos);
  CHECK(svg.find("<title>0RELOAD0: ") != std::string::npos);
  CHECK(testing::count(svg, ">offload</text>") == 1);
  const auto trace = draw_trace(picture);
  CHECK(trace.find("rank 0, offloads to the host") != std::string::npos);
  CHECK(trace.find("\"0RELOAD0\"") != std::string::npos);
  const auto without = to_timeline(of, simulate(of));
  CHECK(draw_terminal(picture, {.unicode = false}).find('F')
        != std::string::npos);
  CHECK(draw_terminal(picture, {.unicode = false})
        == draw_terminal(without, {.unicode = false}));
}
