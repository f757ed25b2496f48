#include "troupe/engine/plan/cost/simulate.hpp"

#include <fmt/format.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using Catch::Approx;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Message;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

std::string path_text(const plan& of, const simulation& times) {
  std::string text;
  for (const auto op : times.critical_path)
    text += (text.empty() ? "" : " ") + to_text(of, op);
  return text;
}

}  // namespace

TEST_CASE("the critical path adds up to the makespan") {
  const auto of = testing::make_plan("1f1b", {.ranks = 3, .microbatches = 2});
  const auto times = simulate(of);
  CHECK(times.makespan == 12);
  CHECK(path_text(of, times) == "0F0 1F0 2F0 2B0 2F1 2B1 1B1 0B1");
}

TEST_CASE("a slow rank and jitter disturb the costs of single ops") {
  const auto of = testing::make_plan("1f1b", {.ranks = 2, .microbatches = 3});
  const auto slow =
    disturbed({}, of, {.of_rank = parse_slow_ranks("rank.1=2")});
  for (std::uint32_t op = 0; op < of.ops.size(); ++op)
    CHECK(slow.of_op[op]
          == op_costs{}.cost_of(op, of.ops[op]) * (of.rank_of(op) + 1));
  CHECK(simulate(of, slow).makespan == 1 + 3 * 6 + 2);
  const disturbance how{.jitter = 0.3, .seed = 7};
  const auto jittered = disturbed({}, of, how);
  CHECK(jittered.of_op == disturbed({}, of, how).of_op);
  CHECK(jittered.of_op != disturbed({}, of, {.jitter = 0.3, .seed = 8}).of_op);
  // Over many ops the logarithms have that deviation and the mean 0.
  const auto many =
    testing::make_plan("gpipe", {.ranks = 8, .microbatches = 200});
  double sum = 0, squares = 0, count = 0;
  const auto costs = disturbed({}, many, how);
  for (std::uint32_t op = 0; op < many.ops.size(); ++op)
    if (many.ops[op].kind == plan_op_kind::forward) {
      const auto log = std::log(costs.of_op[op]);
      sum += log;
      squares += log * log;
      ++count;
    }
  CHECK(std::abs(sum / count) < 0.03);
  CHECK(std::sqrt(squares / count) == Approx(0.3).margin(0.02));
  CHECK_THROWS_AS(
    disturbed({}, of, {.of_rank = parse_slow_ranks("rank.2=1.5")}), error);
  CHECK_THROWS_AS(parse_slow_ranks("f.2=1.5"), error);
  CHECK_THROWS_AS(parse_slow_ranks("rank=1.5"), error);
}

TEST_CASE("costs are taken by kind, by stage, or by op") {
  const auto of = testing::make_plan("gpipe", {.ranks = 1, .microbatches = 2});
  CHECK(simulate(of, parse_costs("f=2,b=3")).makespan == 10);
  CHECK(simulate(of, parse_costs("f=2,b=3,b.0=4")).makespan == 12);
  CHECK(simulate(of, parse_costs("update=5,norm=0.5")).makespan == 11.5);
  op_costs measured;
  measured.of_op = {1, 2, 3, 4, 5, 6};  // F F B B norm update
  CHECK(simulate(of, measured).makespan == 21);
  measured.of_op.pop_back();
  CHECK_THROWS_MATCHES(
    simulate(of, measured), error,
    Message(
      "got 5 costs for a plan of 6 ops; measure the plan that you simulate"));
}

TEST_CASE("reductions run beside the compute ops") {
  const auto of = testing::make_plan(
    "breadth_first", {.ranks = 1, .stages_per_rank = 2, .microbatches = 1},
    {.data_parallel = 2});
  // 0F 1F 1B 0B take 6; the reduction of stage 1 runs from 4 to 7, then 0's.
  CHECK(simulate(of, parse_costs("reduce=3")).makespan == 10);
}

TEST_CASE("a rank may begin its next step before others have ended theirs") {
  // zb_h2 of Qi et al. for P = 2, m = 3: no idle time within a rank's span.
  const auto of =
    compile(from_csv("0F0,0F1,0F2,0I0,0W0,0I1,0W1,0I2,0W2\n"
                     "1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2\n"));
  const auto times = simulate(of);
  CHECK(times.makespan == 10);
  CHECK(times.period == 9);
  const auto clipped =
    compile(make_schedule("gpipe", {.ranks = 2, .microbatches = 3}),
            {.global_norm = true});
  CHECK(simulate(clipped).period == simulate(clipped).makespan);
}

TEST_CASE("figures of a V-shaped split backward") {
  const auto of = compile(from_csv("0F0,1F0,1I0,1W0,0I0,0W0\n"));
  const auto times = simulate(of);
  CHECK(times.makespan == 6);
  CHECK(times.idle == std::vector<double>{0});
  CHECK(times.in_flight == std::vector<std::int32_t>{2});
}

TEST_CASE("receives end when their message has arrived") {
  const auto of = testing::make_plan("1f1b", {.ranks = 2, .microbatches = 1});
  const auto times = simulate(of, {.message = 0.5});
  const auto& first = of.messages[0];
  CHECK(times.end[first.send] == Approx(1));
  CHECK(times.end[first.receive] == Approx(1.5));
  CHECK(times.start[first.consumer] == Approx(1.5));
}

TEST_CASE("messages occupy their channel for bytes / bandwidth") {
  // Rank 1 is fast: the channel is busy from the end of the first forward on.
  const auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 3});
  const auto costs = parse_costs("f=1,b=1,bytes=6,bandwidth=2,message=0.5");
  for (const auto order : {lane_order::strict, lane_order::ready_first}) {
    const auto times = simulate(of, costs, order);
    double free_at = 1;
    for (const auto& each : of.messages) {
      if (each.channel != of.messages[0].channel)
        continue;
      CHECK(times.start[each.send] == free_at);
      CHECK(times.end[each.send] == free_at + 3);
      CHECK(times.end[each.receive] == free_at + 3.5);
      free_at += 3;
    }
    // The last forward arrives at 10.5; B at 13.5, 14.5 and 15.5 would arrive
    // at 15, 18 and 21, each 3 after the other.
    CHECK(times.makespan == 11.5 + 3 * 1 + 2 * 2 + 3.5 + 1);
    CHECK(path_text(of, times) == "0F0 1F2 1B0 0B2");
  }
}

TEST_CASE("links have latencies and bandwidths of their own") {
  const auto costs = parse_costs(
    "message=1,bytes=8,bandwidth=4,message.2-1=3,bandwidth.0-1=16,bytes.2-3=2");
  const auto is = [&](int rank, int other, double transfer, double latency) {
    const auto time = costs.message_between(rank, other);
    CHECK(time.transfer == transfer);
    CHECK(time.latency == latency);
    CHECK(costs.message_between(other, rank).total() == time.total());
  };
  is(0, 1, 0.5, 1);
  is(1, 2, 2, 3);
  is(2, 3, 0.5, 1);
  is(3, 4, 2, 1);
  const auto of = testing::make_plan("1f1b", {.ranks = 4, .microbatches = 1});
  CHECK(simulate(of, costs).makespan
        == 4 * 3 + 2 * ((0.5 + 1) + (2 + 3) + (0.5 + 1)));
  CHECK(without_effect(parse_costs("message.0-1=1,message.0-2=1"), of)
        == std::vector<std::string>{"message.0-2=1"});
}

TEST_CASE("the largest costs give finite figures") {
  const auto of = testing::make_plan("1f1b", {.ranks = 8, .microbatches = 64});
  const auto times = simulate(of, parse_costs("f=1e15,b=1e15,message=1e15"));
  CHECK(std::isfinite(times.makespan));
  CHECK(std::isfinite(times.period));
  CHECK(times.bubble > 0);
  CHECK(times.bubble < 1);
}

TEST_CASE("costs of what a plan lacks are found") {
  const auto one = testing::make_plan("gpipe", {.ranks = 1, .microbatches = 2});
  CHECK(without_effect(parse_costs("f=2,b=2,w=1,b.1=3,message=1"), one)
        == std::vector<std::string>{"w=1", "b.1=3", "message=1"});
  const auto split =
    testing::make_plan("zb_h1", {.ranks = 2, .microbatches = 4});
  CHECK(without_effect(parse_costs("f=1,b=4,b.1=3"), split).empty());
  CHECK(without_effect(parse_costs("b=4,i=2,w=2"), split)
        == std::vector<std::string>{"b=4"});
  CHECK(without_effect(parse_costs("i=4"), one).empty());
  const auto two = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 2});
  CHECK(without_effect(parse_costs("b.1=3,message=1,norm=1"), two).empty());
}

TEST_CASE("costs of a stage that no plan has cost little memory") {
  CHECK(parse_costs("f.65535=1").of_stage.size() == 65536);
  CHECK_THROWS_AS(parse_costs("f.65536=1"), error);
}

TEST_CASE("costs are read strictly") {
  const auto cost = [](const char* text, plan_op_kind kind, int stage = 0) {
    return parse_costs(text).cost_of(0, {.kind = kind, .stage = stage});
  };
  CHECK(cost("b=5", plan_op_kind::input_backward) == 2.5);
  CHECK(cost("i=3,w=4", plan_op_kind::backward) == 7);
  CHECK(cost("b=5,w=1", plan_op_kind::input_backward) == 1);
  CHECK(cost("b=5,b.1=8", plan_op_kind::weight_backward, 1) == 4);
  CHECK(cost("b=5,i.1=8", plan_op_kind::backward, 1) == 10.5);
  const auto costs = parse_costs("f=1.5, b=2 # measured\nmessage=1e-3\n");
  CHECK(costs.of_kind[0] == 1.5);
  CHECK(costs.message == 0.001);
  for (const auto& [text, why] :
       {std::pair{"f", "it does not have the form key=number"},
        std::pair{"f=", "the value is not a number of at least 0"},
        std::pair{"f=-1", "the value is not a number of at least 0"},
        std::pair{"f=nan", "the value is not a number of at least 0"},
        std::pair{"f=1x", "the value is not a number of at least 0"},
        std::pair{"message=1e308",
                  "the value is larger than 1e15; use a larger unit"},
        std::pair{"g=1", "the key is unknown"},
        std::pair{
          "message.1=1",
          "a message belongs to a link, as in message.0-1=2 for ranks 0 and 1"},
        std::pair{"message.1-1=1",
                  "the link is not two ranks below 65536, as in 0-1"},
        std::pair{"message.1-=1",
                  "the link is not two ranks below 65536, as in 0-1"},
        std::pair{"message.1-65536=1",
                  "the link is not two ranks below 65536, as in 0-1"},
        std::pair{"f.0-1=1", "only messages belong to a link; give a stage"},
        std::pair{"bytes=1", "it has no effect without bandwidth"},
        std::pair{"bandwidth=1", "it has no effect without bytes"},
        std::pair{"f.x=1", "the stage is not a number below 65536"},
        std::pair{"f.-1=1", "the stage is not a number below 65536"}})
    CHECK_THROWS_MATCHES(
      parse_costs(text), error,
      MessageMatches(StartsWith(std::string{"costs '"} + text + "': " + why
                                + "; known keys are f, b, i, w, unshard, ")
                     && EndsWith(", message, bytes and bandwidth")));
  for (const auto* text :
       {"bandwidth=0,bytes=1", "f=1,f=2", "f.1=1,f.01=1",
        "message.0-1=1,message.1-0=1", "bytes.0-1=1,bandwidth.1-2=1",
        "bytes=1,bandwidth=1e-300", "f=1,,b=2", ","})
    CHECK_THROWS_AS(parse_costs(text), error);
}

namespace {

/// The CSV of PyTorch's LoopedBFS: backwards traverse stages and microbatches
/// in reverse.
std::string looped_breadth_first(const schedule_shape& shape) {
  std::string csv;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto add = [&](int stage, int microbatch, char kind) {
      csv +=
        fmt::format("{}{}{},", stage * shape.ranks + rank, kind, microbatch);
    };
    for (int s = 0; s < shape.stages_per_rank; ++s)
      for (int m = 0; m < shape.microbatches; ++m)
        add(s, m, 'F');
    for (int s = shape.stages_per_rank; s-- > 0;)
      for (int m = shape.microbatches; m-- > 0;)
        add(s, m, 'B');
    csv.back() = '\n';
  }
  return csv;
}

}  // namespace

TEST_CASE("breadth_first takes as long and as much as PyTorch's LoopedBFS") {
  for (const auto shape : {schedule_shape{2, 2, 4}, schedule_shape{4, 2, 8},
                           schedule_shape{3, 3, 5}, schedule_shape{4, 1, 4}}) {
    const auto theirs = from_csv(looped_breadth_first(shape));
    CHECK(first_out_of_order(theirs));
    const auto ours = make_schedule("breadth_first", shape);
    CHECK_FALSE(first_out_of_order(ours));
    const auto a = simulate(compile(theirs)), b = simulate(compile(ours));
    CHECK(a.makespan == b.makespan);
    CHECK(a.in_flight == b.in_flight);
  }
}

TEST_CASE("a gather delays what it makes whole, and a release waits for it") {
  const auto makespan = [](const std::string& lane) {
    return simulate(from_lowered_csv(lane), parse_costs("unshard=2")).makespan;
  };
  // 2 + F + 2 + B: the second gather waits for the release.
  CHECK(makespan("0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0,0RESHARD\n") == 7);
  CHECK(makespan("0UNSHARD,0F0,0B0,0RESHARD\n") == 5);
  // The next stage's parameters are gathered while the first one computes.
  CHECK(makespan("0UNSHARD,1UNSHARD,0F0,1F0,1B0,0B0,0RESHARD,1RESHARD\n") == 9);
}

TEST_CASE("steps follow each other with and without a barrier") {
  const auto ends = [](const plan& of, const step_series& how) {
    return step_ends(
      of, [](std::int32_t) { return op_costs{}; }, how);
  };
  const auto of = testing::make_plan(
    "zb_v", {.ranks = 4, .stages_per_rank = 2, .microbatches = 8});
  for (const auto order : {lane_order::strict, lane_order::ready_first}) {
    CHECK(ends(of, {.steps = 3, .barrier = true, .order = order})
          == std::vector<double>{51, 102, 153});
    CHECK(ends(of, {.steps = 3, .order = order})
          == std::vector<double>{51, 99, 147});
  }
  const auto slower = [](std::int32_t step) {
    return op_costs{parse_costs(step == 0 ? "f=1" : "f=1,update=2")};
  };
  CHECK(step_ends(of, slower, {.steps = 2, .barrier = true})
        == std::vector<double>{51, 51 + 51 + 4});
}

TEST_CASE("a rank's costs are divided among its stages and slices") {
  const auto of = testing::make_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 4});
  const auto whole = simulate(of, parse_costs("f=1,b=2"));
  const auto cut = divided(parse_costs("f=2,b=4"), division_of(of));
  CHECK(simulate(of, cut).makespan == whole.makespan);
  CHECK(simulate(of, divided(op_costs{}, division_of(of))).makespan
        == whole.makespan / 2);

  // Entries of single stages stay, and what follows from them.
  const auto mixed = divided(parse_costs("f=2,b=4,b.1=6,i.2=1"), {.stages = 2});
  const auto cost = [&](plan_op_kind kind, std::int32_t stage) {
    return mixed.cost_of(0, {.kind = kind, .stage = stage});
  };
  using enum plan_op_kind;
  CHECK(cost(forward, 1) == 1);
  CHECK(cost(backward, 0) == 2);
  CHECK(cost(backward, 1) == 6);
  CHECK(cost(weight_backward, 1) == 3);
  CHECK(cost(input_backward, 2) == 1);
  CHECK(cost(weight_backward, 2) == 1);
  CHECK(cost(backward, 2) == 2);
  CHECK(cost(backward, 3) == 2);

  const auto sliced =
    divided(parse_costs("f=4,update=6,message=2"), {.stages = 2, .slices = 2});
  CHECK(sliced.of_kind[slot(forward)] == 1);
  CHECK(sliced.of_kind[slot(update)] == 3);
  CHECK(sliced.message == 1);
  op_costs own;
  own.of_stage.resize(1, own.of_kind);
  CHECK(divided(own, {.stages = 2}).of_stage[0][slot(forward)] == 1);
}
