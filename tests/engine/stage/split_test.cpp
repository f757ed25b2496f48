#include "troupe/engine/stage/split.hpp"

#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <numeric>
#include <random>

#include "troupe/base/error.hpp"
#include "troupe/engine/models/gpt.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

double heaviest(const std::vector<double>& costs, const stage_split& split) {
  double most = 0;
  for (const auto& range : split)
    most = std::max(most, std::accumulate(costs.begin() + range.first,
                                          costs.begin() + range.last, 0.0));
  return most;
}

/// The optimum over all splits, by trying each.
double least_heaviest(const std::vector<double>& costs, std::size_t first,
                      int stages) {
  if (stages == 1)
    return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first),
                           costs.end(), 0.0);
  double best = 1e300;
  double load = 0;
  for (auto at = first;
       at + static_cast<std::size_t>(stages) - 1 < costs.size(); ++at) {
    load += costs[at];
    best =
      std::min(best, std::max(load, least_heaviest(costs, at + 1, stages - 1)));
  }
  return best;
}

}  // namespace

TEST_CASE("a balanced split is as good as any") {
  std::mt19937 random{1};
  for (int i = 0; i < 200; ++i) {
    std::vector<double> costs(1 + random() % 9);
    for (auto& cost : costs)
      cost = static_cast<double>(random() % 20);
    const auto stages = 1 + static_cast<std::int32_t>(random() % costs.size());
    const auto split = split_by_cost(costs, stages);
    REQUIRE(split.size() == static_cast<std::size_t>(stages));
    CHECK(split.front().first == 0);
    CHECK(split.back().last == static_cast<std::int32_t>(costs.size()));
    for (std::size_t s = 0; s < split.size(); ++s) {
      CHECK(split[s].first < split[s].last);
      if (s > 0)
        CHECK(split[s - 1].last == split[s].first);
    }
    CHECK(heaviest(costs, split) <= least_heaviest(costs, 0, stages) + 1e-9);
  }
}

TEST_CASE("a GPT is split by parameters, by cost, and by hand") {
  const gpt_options sizes{.width = 16, .layers = 4, .heads = 2, .length = 8};
  const auto layers = gpt(sizes);
  CHECK(split(layers, 2).size() == 2);
  CHECK((split_evenly(6, {1, 5}, 2) == stage_split{{0, 3}, {3, 6}}));
  CHECK((split_evenly(6, {1, 5}, 4)
         == stage_split{{0, 2}, {2, 3}, {3, 4}, {4, 6}}));
  CHECK((split_by_hand(6, {1, 5}) == stage_split{{0, 1}, {1, 6}}));
  const auto costs = measured_costs(layers, {at::zeros({1, 8}, at::kLong)}, 1);
  CHECK(costs.size() == 6);
  CHECK(std::ranges::all_of(costs, [](double cost) { return cost > 0; }));
}

TEST_CASE("splits that can't be are refused") {
  const gpt_options sizes{.width = 16, .layers = 4, .heads = 2, .length = 8};
  const auto says = [](const char* text) {
    return MessageMatches(ContainsSubstring(text));
  };
  CHECK_THROWS_MATCHES(split_evenly(6, {1, 5}, 5), error,
                       says("4 blocks can't be cut into 5 stages"));
  CHECK_THROWS_MATCHES(split(gpt(sizes), 7), error,
                       says("6 layers can't be cut into 7 stages"));
  CHECK_THROWS_MATCHES(split_by_hand(6, {3, 2}), error,
                       says("hold 5 layers together, the model has 6"));
  CHECK_THROWS_MATCHES(split_by_hand(6, {6, 0}), error,
                       says("stage 1 has 0 layers"));
  CHECK_THROWS_MATCHES(measured_costs(gpt(sizes), {}, 0), error,
                       says("timed by 0 repeats"));
  CHECK_THROWS_MATCHES(gpt({.width = 10, .heads = 4}), error,
                       says("--d-model 10 is not a multiple of --heads 4"));
}
