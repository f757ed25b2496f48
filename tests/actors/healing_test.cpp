// Jobs that go on when a process was lost and started again.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "../expect.hpp"
#include "mortal_processes.hpp"
#include "troupe/actors/job/state_copies.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/wire.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a job that loses processes trains the bits of one that does not") {
  check_healed({.ranks = 3, .microbatches = 6, .clip = 0.5}, 3, 4, 1);
  check_healed({.data_parallel = 2, .dropout = 0.3}, 2, 3, 2);
  check_healed({.schedule = "zb_v", .ranks = 2, .stages_per_rank = 2}, 2, 3, 3);
  check_healed({.ranks = 4, .microbatches = 8}, 4, 3, 4, {.copy_every = 5});
  small_case sharded{.data_parallel = 2, .clip = 0.5};
  sharded.sharding.mode = shard_mode::all;
  check_healed(sharded, 2, 3, 5);
  check_healed({.ranks = 3, .microbatches = 6, .dropout = 0.3, .hits = true}, 3,
               4, 8);
}

TEST_CASE("a job heals whatever its order and its hosting have become") {
  check_healed({.ranks = 3, .microbatches = 6}, 3, 5, 6, {.changes = true});
}

TEST_CASE("a job on devices heals, with and without links between them") {
  const faked_accelerator watch;
  for (const bool device_links : {true, false})
    check_healed({.ranks = 3, .microbatches = 6, .clip = 0.5}, 3, 3, 7,
                 {.device_links = device_links});
  CHECK(watch.races() == std::vector<std::string>{});
}

TEST_CASE("a monitor sees each step once whatever is repeated") {
  constexpr std::int64_t steps = 60, copy_every = 7;
  small_case what{.ranks = 2};
  what.hits = GENERATE(false, true);
  meeting_place where(2);
  mortal_process leads(where, 0, what, steps, {.copy_every = copy_every});
  mortal_process other(where, 1, what, steps, {.copy_every = copy_every});
  for (int k = 0; k < 3; ++k)
    while (!other.kill() && !where.is_over())
      std::this_thread::yield();
  leads.join();
  other.join();
  CHECK(leads.error == "");
  std::vector<std::int64_t> all(steps);
  std::iota(all.begin(), all.end(), 1);
  CHECK(leads.seen.steps == all);
  CHECK((leads.seen.second_runs > 0) == what.hits);
  CHECK(leads.seen.epochs == where.meetings() - 1);
  REQUIRE_FALSE(leads.seen_late.empty());
  for (const auto& each : leads.seen_late)
    CHECK(each.epochs >= 1);
}

TEST_CASE("steps and evaluations are seen in the process that leads alone") {
  const small_case what{.ranks = 2};
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for(what);
    options.job = job;
    trainer run(model_for(what), options);
    seen_events seen;
    run.attach(seen.watch(false));
    run.step(small_text());
    run.evaluate(small_text(), 1);
    run.finish_monitors();
    expect(seen.steps.size() == (job->place().leads() ? 2 : 0), "outcomes");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("copies in no step, or less often, are refused") {
  auto options = options_for({});
  options.healing.copy_every = 0;
  CHECK_THROWS_WITH(trainer(model_for({}), options),
                    ContainsSubstring("copy_every is 0 steps"));
}

TEST_CASE("a failure that is no loss does not heal") {
  const small_case what{.ranks = 2};
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for(what);
    options.job = job;
    options.healing.rejoin = no_rejoin;
    trainer run(model_for(what), options);
    run.step(small_text());
    const auto began = std::chrono::steady_clock::now();
    if (run.can_heal(error(error_code::io, "the disk is full"))
        || std::chrono::steady_clock::now() - began > std::chrono::seconds(2))
      throw std::logic_error("a loss was waited for");
    const auto broken = make_source([](std::int64_t) -> microbatch_data {
      throw std::runtime_error("the disk is gone");
    });
    try {
      run.step(broken);
    } catch (const troupe::error& reason) {
      if (run.heal(reason))
        throw std::logic_error("it has healed");
      throw;
    }
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("the disk is gone"));
}

TEST_CASE("copies of states are kept of two steps, and found again") {
  state_copies kept;
  const auto state_of = [](std::int32_t data_rank, std::int32_t stage,
                           std::int64_t step) {
    const stage_state_head head{{data_rank, {stage}}, {.step = step}, {"w"}};
    return frame{frame_type::copy, to_wire(head), {at::Tensor{}, at::Tensor{}}};
  };
  for (const std::int64_t step : {3, 5, 4})
    kept.keep(state_of(0, 1, step));
  CHECK(kept.held().size() == 2);
  CHECK_THROWS_AS(kept.at({0, {1}}, 3), error);
  CHECK(kept.at({0, {1}}, 5).head == state_of(0, 1, 5).head);
  CHECK(kept.await({{0, {1}}}, 5, [] { return true; }));
  CHECK_FALSE(kept.await({{0, {1}}, {0, {2}}}, 5, [] { return true; }));
  kept.forget_after(4);
  CHECK(kept.held().size() == 1);
  CHECK_THROWS_AS(kept.keep({frame_type::copy, "nonsense", {}}), error);
}

TEST_CASE("the memory of an older copy is taken unless it is in use") {
  state_copies kept;
  const stage_place place{0, {1}};
  const auto keep = [&](std::int64_t step, at::Tensor weight) {
    const stage_state_head head{place, {.step = step}, {"w"}};
    kept.keep({frame_type::copy, to_wire(head), {std::move(weight), {}}});
  };
  keep(3, at::ones({2}));
  CHECK(kept.take_oldest(place).empty());  // the only one
  keep(4, at::ones({2}));
  CHECK(kept.take_oldest(place).size() == 2);
  CHECK(kept.held().size() == 1);
  const auto sent = at::ones({2});
  keep(5, sent);
  keep(6, at::ones({2}));
  CHECK(kept.take_oldest(place).empty());  // that of step 5 is in use
  keep(7, at::ones({2}));
  keep(8, sent.view({1, 2}));
  CHECK(kept.take_oldest(place).size() == 2);
  keep(9, at::ones({2}));
  CHECK(kept.take_oldest(place).empty());  // as is that of step 8
}

TEST_CASE("a copy is kept by the next process, unless a replica lives") {
  const auto alone = make_layout(0, 3, 1, 3, {0, 0, 2});
  CHECK(keeper_of(alone, 0, 0, false) == 1);
  CHECK(keeper_of(alone, 0, 2, false) == 0);
  const auto replicas = make_layout(0, 2, 2, 2, {0, 0, 1, 0});
  CHECK(keeper_of(replicas, 0, 0, false) == std::nullopt);
  CHECK(keeper_of(replicas, 0, 0, true) == 1);
  CHECK(keeper_of(replicas, 1, 1, false) == 1);  // both in process 0
  CHECK(keeper_of(make_layout(0, 1, 1, 2), 0, 0, false) == std::nullopt);
}

TEST_CASE("a job goes back to the newest step of which all states are left") {
  const auto held = [](std::int32_t data_rank, std::int32_t stage,
                       std::int64_t step) {
    return held_state{{data_rank, {stage}}, {.step = step}};
  };
  const std::map<stage_place, std::int32_t> hosts{{{0, {0}}, 0}, {{0, {1}}, 1}};
  const auto same = [](const stage_place& a, const stage_place& b) {
    return a == b;
  };
  const auto found = choose_recovery(
    {{held(0, 0, 4), held(0, 0, 5), held(0, 1, 4)}, {held(0, 1, 4)}}, hosts,
    same);
  REQUIRE(found);
  CHECK(found->progress.step == 4);
  CHECK(found->sources.at({0, {1}}).process == 1);  // its host has it
  const auto from_neighbour =
    choose_recovery({{held(0, 0, 5), held(0, 1, 5)}, {}}, hosts, same);
  REQUIRE(from_neighbour);
  CHECK(from_neighbour->sources.at({0, {1}}).process == 0);
  CHECK_FALSE(choose_recovery({{held(0, 0, 5)}, {}}, hosts, same));
  CHECK_FALSE(choose_recovery({{}, {}}, hosts, same));
  const auto from_replica =
    choose_recovery({{held(0, 0, 5)}, {held(1, 1, 5)}}, hosts,
                    [](const stage_place& a, const stage_place& b) {
                      return a.stage == b.stage;
                    });
  REQUIRE(from_replica);
  CHECK(from_replica->sources.at({0, {1}}).place == stage_place{1, {1}});
}
