// A run that replays the order of another run's ops leaves the same log.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>

#include "../random_delays.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/order_log.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr int steps = 3;

/// Trains, and returns the order log.
std::string logged(const small_case& what, trainer_options options,
                   parameter_list& parameters) {
  trainer run(model_for(what), std::move(options));
  auto log = order_log_heading();
  for (int i = 0; i < steps; ++i)
    for (const auto& rank : run.step(small_text()).ops) {
      std::vector<std::uint32_t> ops;
      for (const auto& op : rank.ops)
        ops.push_back(op.op);
      log += order_log_line(*rank.plan, rank.source.step, rank.source.data_rank,
                            rank.source.rank, ops);
    }
  for (const auto& [name, value] : run.parameters())
    parameters.emplace_back(name, value.clone());
  return log;
}

}  // namespace

TEST_CASE("a replayed log gives the same order, and the same bits") {
  for (small_case what :
       {small_case{.ranks = 3, .microbatches = 6},
        small_case{.schedule = "zb_v", .stages_per_rank = 2, .microbatches = 5},
        small_case{.data_parallel = 2, .clip = 0.5}}) {
    what.order = lane_order::ready_first;
    INFO(describe(what));
    auto options = options_for(what);
    options.execution.handler_hook = random_delays(3);
    parameter_list first, second;
    const auto log = logged(what, options, first);
    options.execution.order = lane_order::strict;
    options.execution.handler_hook = random_delays(8);
    options.execution.replay = std::make_shared<const order_log>(log, "first");
    const auto again = logged(what, options, second);
    CHECK(again == log);
    CHECK(first_difference(first, second) == "");
    auto longer = trainer(model_for(what), options);
    for (int i = 0; i < steps; ++i)
      longer.step(small_text());
    CHECK_THROWS_AS(longer.step(small_text()), error);
  }
}

namespace {

double busy(const ops_event& rank) {
  double sum = 0;
  for (const auto& op : rank.ops)
    if (is_compute(rank.plan->ops[op.op].kind))
      sum += static_cast<double>(op.end - op.begin);
  return sum;
}

}  // namespace

TEST_CASE("a straggler is slower from its step on, and changes no bit") {
  const small_case what{.ranks = 2, .microbatches = 4};
  auto options = options_for(what);
  options.execution.slow = {1, 30};
  options.execution.slow_from = 3;
  trainer run(model_for(what), std::move(options));
  auto without = trainer_for(what, nullptr);
  std::vector<double> ratios;
  for (int i = 0; i < 6; ++i) {
    const auto ops = run.step(small_text()).ops;
    without.step(small_text());
    ratios.push_back(busy(ops.at(1)) / busy(ops.at(0)));
  }
  CHECK(*std::max_element(ratios.begin() + 2, ratios.end())
        > 3 * std::min(ratios[0], ratios[1]));
  CHECK(first_difference(run.parameters(), without.parameters()) == "");
}
