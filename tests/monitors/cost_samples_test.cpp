#include "troupe/monitors/timing/cost_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

TEST_CASE(
  "measured costs are means of each stage's ops, without the first step") {
  const auto of = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 1})));
  cost_samples costs;
  CHECK(costs.text().empty());
  for (const std::int64_t slower : {9, 1, 3}) {
    std::vector<ops_event> step(2);
    for (auto& rank : step)
      rank.plan = of;
    std::int64_t now = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (auto i = of->first_op[rank]; i < of->first_op[rank + 1]; ++i) {
        const bool forward = of->ops[i].kind == plan_op_kind::forward;
        op_record done{.op = i, .begin = now};
        now += (forward ? 2'000'000 : 1'000'000) * slower;
        done.end = now;
        if (forward && rank == 1) {
          done.left = 1'000'000;
          done.arrived = 1'250'000;
        }
        step[rank].ops.push_back(done);
      }
    costs.add(step);
  }
  const auto text = costs.text();
  const auto read = parse_costs(text);
  plan_op op{.kind = plan_op_kind::forward, .stage = 1};
  CHECK(read.cost_of(0, op) == Approx(4));
  op.kind = plan_op_kind::backward;
  CHECK(read.cost_of(0, op) == Approx(2));
  CHECK(read.message == Approx(0.25));
  CHECK_THAT(text, ContainsSubstring("over 2 steps of 1f1b"));
}

TEST_CASE("messages are measured on each link") {
  const auto of = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 3, .microbatches = 1})));
  std::vector<ops_event> step(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    step[rank].plan = of;
    for (auto i = of->first_op[rank]; i < of->first_op[rank + 1]; ++i) {
      op_record done{.op = i, .begin = 0, .end = 1'000'000};
      if (of->ops[i].kind == plan_op_kind::forward && rank > 0) {
        done.left = 1'000'000;
        done.arrived = rank == 1 ? 2'000'000 : 6'000'000;
      }
      step[rank].ops.push_back(done);
    }
  }
  cost_samples costs;
  costs.add(step);
  const auto read = parse_costs(costs.entries());
  CHECK(read.message_between(0, 1).total() == Approx(1));
  CHECK(read.message_between(2, 1).total() == Approx(5));
}

TEST_CASE("a run writes the costs of its ops, which the simulator takes") {
  const temporary_folder folder;
  const auto path = folder / "costs";
  auto options = options_g(2, 4);
  options.schedule = make_schedule("zb_h1", {.ranks = 2, .microbatches = 4});
  trainer run(model_g(), options);
  run.attach(cost_monitor(path));
  for (int i = 0; i < 3; ++i)
    run.step(source_g(4), true);
  run.finish_monitors();
  const auto costs = load_costs(path);
  CHECK(without_effect(costs, run.plan()).empty());
  for (const auto* key : {"f.0=", "i.1=", "w.0=", "update.1="})
    CHECK_THAT(content(path), ContainsSubstring(key));
  CHECK(simulate(run.plan(), costs).makespan > 0);
}
