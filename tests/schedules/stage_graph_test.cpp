#include "troupe/schedules/stage_graph.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::vector<std::int32_t> stages_of(
  std::span<const stage_graph::neighbour> ends) {
  std::vector<std::int32_t> stages;
  for (const auto& each : ends)
    stages.push_back(each.stage);
  return stages;
}

}  // namespace

TEST_CASE("a stage graph tells who reads whom, in both directions") {
  const stage_graph graph(4, {{1, 2}, {0, 3}, {0, 1}, {2, 3}});
  CHECK(to_text(graph) == "0>1 0>3 1>2 2>3");
  CHECK_FALSE(graph.is_chain());
  CHECK(stages_of(graph.inputs(3, false)) == std::vector{0, 2});
  CHECK(stages_of(graph.outputs(0, false)) == std::vector{1, 3});
  CHECK(stages_of(graph.inputs(0, true)) == std::vector{1, 3});
  CHECK(graph.inputs(0, false).empty());
  for (const auto& [stage, edge] : graph.outputs(0, false))
    CHECK(graph.edges()[static_cast<std::size_t>(edge)]
          == stage_edge{0, stage});
  for (const auto& [stage, edge] : graph.inputs(3, false))
    CHECK(graph.edges()[static_cast<std::size_t>(edge)]
          == stage_edge{stage, 3});
}

TEST_CASE("a chain is a graph of stages that read the one before") {
  CHECK(to_text(stage_graph::chain(3)) == "0>1 1>2");
  CHECK(stage_graph::chain(3).is_chain());
  CHECK(stage_graph::chain(1).is_chain());
  CHECK(stage_graph::chain(3) == stage_graph(3, {{1, 2}, {0, 1}}));
  CHECK(stage_graph::chain(3) != stage_graph::chain(4));
  CHECK_FALSE(stage_graph(3, {{0, 1}, {0, 2}}).is_chain());
}

TEST_CASE("edges that go backwards, nowhere, or twice are refused") {
  const auto refuses = [](std::vector<stage_edge> edges,
                          const std::string& why) {
    CHECK_THROWS_MATCHES(stage_graph(3, std::move(edges)), error,
                         MessageMatches(ContainsSubstring(why)));
  };
  refuses({{2, 1}}, "stage 1 can't read stage 2");
  refuses({{1, 1}}, "stage 1 can't read stage 1");
  refuses({{0, 3}}, "stage 3 can't read stage 0: of 3 stages");
  refuses({{-1, 2}}, "stage 2 can't read stage -1");
  refuses({{0, 1}, {0, 1}}, "the edge 0>1 is given twice");
}
