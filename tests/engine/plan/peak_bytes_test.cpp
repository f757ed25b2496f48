#include "troupe/engine/plan/cost/peak_bytes.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>

#include "../../says.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/schedules/forward_part.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;

namespace {

std::vector<double> peaks(const plan& of, const std::string& sizes,
                          const std::string& costs = "") {
  return peak_bytes(of, simulate(of, parse_costs(costs)), parse_sizes(sizes));
}

}  // namespace

TEST_CASE("what forwards keep is what is in flight") {
  for (const std::string name :
       {"gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b", "depth_first"}) {
    const bool looped = name == "interleaved_1f1b" || name == "depth_first";
    const auto of = make_plan(
      name, {.ranks = 4, .stages_per_rank = looped ? 2 : 1, .microbatches = 8});
    const auto in_flight = simulate(of).in_flight;
    const auto bytes = peaks(of, "kept=1");
    for (std::size_t rank = 0; rank < bytes.size(); ++rank)
      CHECK(bytes[rank] == in_flight[rank]);
  }
}

TEST_CASE("a message is held by its sender until it has arrived") {
  // Rank 1 reads its inputs when they arrive, at 1 and 2, or at 3 and 4, when
  // two of rank 0's messages are in flight.
  const auto of = make_plan("gpipe", {.ranks = 2, .microbatches = 2});
  CHECK(peaks(of, "activation=10,gradient=0") == std::vector<double>{10, 0});
  CHECK(peaks(of, "activation=10,gradient=0", "message=2")[0] == 20);
  CHECK(peaks(of, "activation=0,gradient=7")[0] == 7);
}

TEST_CASE("parameters are held all along, by stage") {
  const auto of = make_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 2});
  CHECK(peaks(of, "parameters=100,parameters.3=7")
        == std::vector<double>{200, 107});
  const auto forwards = compile(
    forward_part(make_schedule("gpipe", {.ranks = 2, .microbatches = 3})));
  CHECK(peaks(forwards, "kept=5") == std::vector<double>{5, 5});
}

TEST_CASE("a skip holds its bytes from its giver to its reader") {
  const stage_graph graph(4, {{0, 1}, {0, 3}, {1, 2}, {2, 3}});
  const auto of = compile(
    make_schedule("breadth_first",
                  {.ranks = 1, .stages_per_rank = 4, .microbatches = 1}),
    {.graph = graph});
  // The first stage makes both; the skip is held while stages 1 and 2 run.
  CHECK(peaks(of, "activation.0=10,gradient=0,activation=1")
        == std::vector<double>{20});
  CHECK(peaks(compile(make_schedule(
                "breadth_first",
                {.ranks = 1, .stages_per_rank = 4, .microbatches = 1})),
              "activation.0=10,gradient=0,activation=1")
        == std::vector<double>{10});
}

TEST_CASE("an input backward frees what its weight backward does not need") {
  schedule lanes{.name = "split", .microbatches = 2};
  lanes.placement = placement::looped(1, 1);
  auto& lane = lanes.lanes.emplace_back();
  for (const auto kind :
       {op_kind::forward, op_kind::input_backward, op_kind::weight_backward})
    for (const auto k : {0, 1})
      lane.push_back({.microbatch = k, .kind = kind});
  const auto split = compile(lanes);
  const auto peak = [&](const char* sizes) {
    return peak_bytes(split, simulate(split), parse_sizes(sizes)).at(0);
  };
  CHECK(peak("kept=6,deferred=1") == 12);  // after both F
  CHECK(peak("kept=1,deferred=5") == 10);  // after both I
  CHECK(peak("kept=6") == 12);
}

TEST_CASE("sizes are read as costs are") {
  const auto sizes = parse_sizes("activation=3 # a comment\nkept.1=4");
  CHECK(sizes.row(0).gradient == 3);
  CHECK(sizes.row(1).kept == 4);
  CHECK(sizes.row(1).deferred == 4);
  CHECK(parse_sizes("kept=7,deferred=2,kept.1=4").row(1).deferred == 2);
  CHECK(sizes.row(1).activation == 3);
  CHECK(parse_sizes("gradient=1,activation.2=9").row(2).gradient == 1);
  CHECK_THROWS_MATCHES(parse_sizes("keep=1"), error,
                       says("sizes 'keep=1': the key is unknown; known keys "
                            "are kept, deferred, activation, gradient, "
                            "parameters, version, whole and "
                            "whole_gradient"));
  CHECK_THROWS_MATCHES(parse_sizes("kept=-1"), error,
                       says("not a number of at least 0"));
  CHECK_THROWS_MATCHES(load_sizes("kept"), error, says("form key=number"));
}

TEST_CASE("all ranks at once hold no more than their peaks together") {
  for (const auto* name : {"gpipe", "1f1b", "zb_h1", "eager_1f1b"}) {
    CAPTURE(name);
    const auto compiled =
      compile(make_schedule(name, {.ranks = 3, .microbatches = 6}));
    const auto times = simulate(compiled);
    const auto sizes = parse_sizes("kept=5,activation=2,gradient=3,deferred=1");
    const auto each = peak_bytes(compiled, times, sizes);
    const auto joint = joint_peak_bytes(compiled, times, sizes);
    CHECK(joint <= std::accumulate(each.begin(), each.end(), 0.0));
    CHECK(joint >= std::ranges::max(each));
  }
  const auto compiled =
    compile(make_schedule("gpipe", {.ranks = 2, .microbatches = 3}));
  CHECK(joint_peak_bytes(compiled, simulate(compiled),
                         parse_sizes("kept=1,activation=0,parameters=10"))
        == 26);
  // The second rank's forward waits for the first one's.
  const auto one =
    compile(make_schedule("forward_only", {.ranks = 2, .microbatches = 1}));
  CHECK(joint_peak_bytes(one, simulate(one), parse_sizes("kept=1,activation=0"))
        == 1);
}

TEST_CASE("a rank's sizes are divided among its stages and slices") {
  const auto sizes =
    parse_sizes("kept=8,activation=6,parameters=4,parameters.1=3", {2, 2});
  CHECK(sizes.usual.kept == 2);
  CHECK(sizes.usual.deferred == 2);
  CHECK(sizes.usual.activation == 3);
  CHECK(sizes.usual.parameters == 2);
  CHECK(sizes.row(1).parameters == 3);
  CHECK(sizes.row(1).kept == 2);
}
