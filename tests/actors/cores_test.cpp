// The decisions of actors, tested without actors.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <thread>

#include "small_model.hpp"
#include "troupe/actors/coordination/coordinator_actor.hpp"
#include "troupe/actors/coordination/loader_actor.hpp"
#include "troupe/actors/step/progress_board.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

step_pointer a_step(std::int32_t ranks, std::int32_t microbatches,
                    std::int64_t first = 0) {
  auto step = std::make_shared<step_context>();
  step->serial = 1;
  step->settings.first_microbatch = first;
  step->plan = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {ranks, 1, microbatches})));
  return step;
}

std::shared_ptr<const microbatch_source> numbered(
  std::vector<std::int64_t>& loads, std::int64_t size = -1) {
  return make_source(
    [&loads](std::int64_t index) {
      loads.push_back(index);
      return microbatch_data{{}, {}, {}, index};
    },
    size);
}

}  // namespace

TEST_CASE("a loader serves each consumer and holds few ahead") {
  std::vector<std::int64_t> loads;
  loader_core loader({.consumers = {2}, .loading = {.prefetch = 2}},
                     [](const auto&, double) {});
  const auto step = a_step(2, 4);
  loader.begin(*step, numbered(loads));
  CHECK(loader.on(want_data{step, {0}, 0}).data->tokens == 0);
  CHECK(loader.ready() == 1);  // the second consumer has not read it yet
  CHECK(loader.prefetch());
  CHECK(loader.prefetch());
  CHECK_FALSE(loader.prefetch());
  CHECK(loads == std::vector<std::int64_t>{0, 1, 2});
  loader.on(want_data{step, {1}, 0});
  CHECK(loader.ready() == 2);
  loader.on(want_data{step, {0}, 1});
  CHECK(loads.size() == 3);  // it was loaded already
}

TEST_CASE("a loader goes ahead into its replica's next step") {
  std::vector<std::int64_t> loads;
  loader_core loader({.data_rank = 1,
                      .data_ranks = 2,
                      .consumers = {1},
                      .loading = {.prefetch = 2}},
                     [](const auto&, double) {});
  const auto step = a_step(1, 2);
  const auto source = numbered(loads);
  loader.begin(*step, source);
  loader.on(want_data{step, {0}, 0});
  loader.on(want_data{step, {0}, 1});
  while (loader.prefetch()) {
  }
  CHECK(loads == std::vector<std::int64_t>{2, 3, 6, 7});
  const auto next = a_step(1, 2, 4);
  loader.begin(*next, source);
  CHECK(loader.on(want_data{next, {0}, 0}).data->tokens == 6);
  CHECK(loads.size() == 4);
  const auto elsewhere = a_step(1, 2, 100);
  loader.begin(*elsewhere, source);
  CHECK(loader.ready() == 0);
  CHECK(loader.on(want_data{elsewhere, {0}, 1}).data->tokens == 103);
}

TEST_CASE("a loader tells how long a slow load took, and where data ends") {
  std::vector<std::int64_t> loads;
  double slow = 0;
  loader_core::place late{9, 9};
  loader_core loader({.consumers = {1}, .loading = {.slow_seconds = 0}},
                     [&](const loader_core::place& at, double seconds) {
                       slow = seconds;
                       late = at;
                     });
  const auto step = a_step(1, 2);
  loader.begin(*step, numbered(loads, 1));
  loader.on(want_data{step, {0}, 0});
  CHECK(slow > 0);
  CHECK(late.steps_ahead == 0);
  CHECK(late.microbatch == 0);
  CHECK_FALSE(loader.prefetch());
  CHECK_THROWS_MATCHES(
    loader.on(want_data{step, {0}, 1}), error,
    MessageMatches(ContainsSubstring("has 1 microbatches, but number 1")));
}

TEST_CASE(
  "a slow load ahead of time is reported with its own step and number") {
  std::vector<std::int64_t> loads;
  loader_core::place late;
  loader_core loader({.data_rank = 1,
                      .data_ranks = 2,
                      .consumers = {1},
                      .loading = {.prefetch = 3, .slow_seconds = 0}},
                     [&](const loader_core::place& at, double) { late = at; });
  const auto step = a_step(1, 2);
  loader.begin(*step, numbered(loads));
  loader.on(want_data{step, {0}, 0});
  CHECK(loader.prefetch());
  CHECK(late.microbatch == 1);
  CHECK(loader.prefetch());
  CHECK(late.steps_ahead == 1);
  CHECK(late.microbatch == 0);
}

TEST_CASE("the coordinator's norm is that of all stages, and clips") {
  coordinator_core core({.ranks = 2, .stages = 2, .arithmetic = {.clip = 1}});
  core.begin(a_step(2, 1));
  CHECK_FALSE(core.on(stage_powers{1, 1, {16}}));
  const auto verdict = core.on(stage_powers{1, 0, {4, 5}});
  REQUIRE(verdict);
  CHECK(verdict->update);
  CHECK(std::abs(verdict->factor - 0.2) < 1e-6);
  CHECK_FALSE(core.on(rank_done{1, 0, 1, {}}));
  const auto outcome = core.on(rank_done{1, 0, 0, {}});
  REQUIRE(outcome);
  CHECK(outcome->event.gradient_norm == 5);
  CHECK(outcome->event.updated);
  CHECK_FALSE(core.running());
}

TEST_CASE("an infinite norm skips the update under a dynamic scale") {
  coordinator_setup setup;
  setup.arithmetic.loss_scale = {1, true};
  coordinator_core core(setup);
  core.begin(a_step(1, 1));
  CHECK_FALSE(core.on(stage_powers{1, 0, {INFINITY}})->update);
  CHECK_FALSE(core.on(rank_done{1, 0, 0, {}})->event.updated);
}

namespace {

/// Two replicas of a step of one stage that is watched.
coordinator_core watching_core() {
  coordinator_core core({.data_ranks = 2, .arithmetic = {}});
  auto step = std::make_shared<step_context>(*a_step(1, 1));
  step->settings.reading = step_reading::watched;
  core.begin(step);
  return core;
}

}  // namespace

TEST_CASE("a watched step waits for all replicas, and a hit runs it again") {
  stage_powers from_other{.serial = 1, .shard = none};
  for (const bool hit : {false, true}) {
    auto core = watching_core();
    CHECK_FALSE(core.on(stage_powers{1, 0, {4}}));
    from_other.hit = hit;
    const auto verdict = core.on(from_other);
    REQUIRE(verdict);
    CHECK(verdict->update == !hit);
    CHECK(core.runs_again() == hit);
    CHECK_FALSE(core.on(rank_done{1, 0, 0, {}}));
    CHECK(core.on(rank_done{1, 1, 0, {}})->runs_again == hit);
  }
}

TEST_CASE("a watched step that has written to buffers does not run again") {
  auto core = watching_core();
  CHECK_FALSE(core.on(
    {.serial = 1, .shard = none, .hit = true, .changed_buffers = true}));
  CHECK(core.on(stage_powers{1, 0, {4}})->update);
  CHECK_FALSE(core.runs_again());
}

TEST_CASE("a watched step with a gradient that is not finite runs again") {
  auto core = watching_core();
  CHECK_FALSE(core.on({.serial = 1, .shard = none}));
  CHECK_FALSE(core.on(stage_powers{1, 0, {INFINITY}})->update);
  CHECK(core.runs_again());
  core.begin(a_step(1, 1));  // the second run
  CHECK_FALSE(core.runs_again());
  CHECK(core.on(stage_powers{1, 0, {INFINITY}})->update);
}

TEST_CASE("powers of no stage, or no shard of one, are refused") {
  coordinator_core core(
    {.ranks = 2, .stages = 2, .shards = 2, .arithmetic = {.clip = 1}});
  core.begin(a_step(2, 1));
  for (const auto& [stage, shard] :
       {std::pair(-1, 0), {2, 0}, {1, -1}, {0, 2}, {INT32_MAX, INT32_MAX}})
    CHECK_THROWS_MATCHES(
      core.on(stage_powers{1, stage, {1}, shard}), error,
      MessageMatches(ContainsSubstring("which the plan does not have")));
}

TEST_CASE("a rank ends a step once") {
  coordinator_core core({.ranks = 2, .stages = 2, .arithmetic = {}});
  core.begin(a_step(2, 1));
  CHECK_FALSE(core.on(rank_done{1, 0, 1, {}}));
  CHECK_THROWS_MATCHES(
    core.on(rank_done{1, 0, 1, {}}), error,
    MessageMatches(ContainsSubstring("rank 1 of replica 0 reported the end")));
}

TEST_CASE("the progress board says who waits for whom") {
  const auto step = a_step(2, 2);
  const auto& plan = *step->plan;
  progress_board board(1, 2);
  const auto find = [&](std::int32_t rank, plan_op_kind kind) {
    auto at = plan.first_op[static_cast<std::size_t>(rank)];
    while (plan.ops[at].kind != kind)
      ++at;
    return at;
  };
  using state = progress_board::state;
  board.set(0, 0, {find(0, plan_op_kind::backward), state::waiting});
  board.set(0, 1, {find(1, plan_op_kind::forward), state::running});
  const auto lines = board.describe(plan);
  CHECK(lines[0] == "rank 0 waits at 0B0 for the gradient of stage 1 (rank 1)");
  CHECK(lines[1] == "rank 1 runs 1F0");
  board.set(0, 1, {find(1, plan_op_kind::update), state::waiting});
  CHECK_THAT(board.describe(plan)[1],
             ContainsSubstring("for the gradient norm of all stages"));
  const auto shared = compile(make_schedule("1f1b", {2, 1, 2}),
                              compile_options{.data_parallel = 2});
  auto reduce = shared.first_op[1];
  while (shared.ops[reduce].kind != plan_op_kind::reduce)
    ++reduce;
  board.set(0, 1, {reduce, state::waiting});
  CHECK_THAT(board.describe(shared)[1], ContainsSubstring("for the reducer"));
}
