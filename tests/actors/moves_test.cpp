// Ranks that move between the processes of a job while it trains.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../engine/transport/joined_meshes.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "job_trainings.hpp"
#include "troupe/actors/job/hosting.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using hosts = std::vector<std::int32_t>;

/// The hosting of each step's ranks; empty: as before.
using journey = std::vector<hosts>;

/// As many steps as the journey has, on processes that are threads of this one.
/// The leading process's results.
job_result train_on(const small_case& what, std::int32_t processes,
                    const journey& way) {
  job_result result;
  joined_meshes meshes(processes);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    const bool leads = job->place().leads();
    for (const auto& next : way) {
      if (leads && !next.empty())
        run.rehost(next);
      const auto done = run.step(small_text()).summary;
      if (leads)
        result.losses.push_back(done.losses.at(0).value);
    }
    run.check_replicas();
    const auto all = run.gather_parameters();
    for (const auto& [name, value] : all)
      if (leads)
        result.parameters.emplace_back(name, value.clone());
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  return result;
}

job_result train_alone(const small_case& what, std::size_t steps) {
  job_result result;
  auto run = trainer_for(what, nullptr);
  for (std::size_t i = 0; i < steps; ++i)
    result.losses.push_back(run.step(small_text()).summary.losses.at(0).value);
  for (const auto& [name, value] : run.parameters())
    result.parameters.emplace_back(name, value.clone());
  return result;
}

void check_journey(const small_case& what, std::int32_t processes,
                   const journey& way) {
  INFO(describe(what) << " in " << processes << " processes");
  const auto alone = train_alone(what, way.size());
  const auto job = train_on(what, processes, way);
  CHECK(first_difference(alone.parameters, job.parameters) == "");
  CHECK(alone.losses == job.losses);
}

/// A random hosting for each step but the first; a process may get no rank.
journey random_journey(const small_case& what, std::int32_t processes,
                       std::size_t steps, std::uint32_t seed) {
  std::mt19937 random(seed);
  journey way(steps);
  for (std::size_t i = 1; i < steps; ++i)
    for (std::int32_t r = 0; r < what.ranks * what.data_parallel; ++r)
      way[i].push_back(
        static_cast<std::int32_t>(random() % std::uint32_t(processes)));
  return way;
}

/// Assertions are for the main thread alone.
void require(bool holds, const char* what) {
  if (!holds)
    throw std::logic_error(std::string("it isn't so that the run ") + what);
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const error& reason) {
    return reason.what();
  }
  return {};
}

}  // namespace

TEST_CASE("8 ranks in 1, 2, 4, 8, 3 and 1 processes train the same bits") {
  const small_case what{.schedule = "zb_h1", .ranks = 8, .microbatches = 8};
  small_case begins_in_one = what;
  begins_in_one.hosting = hosts(8, 0);
  const journey way{{},
                    {0, 0, 0, 0, 1, 1, 1, 1},
                    {0, 0, 1, 1, 2, 2, 3, 3},
                    {},
                    {0, 1, 2, 3, 4, 5, 6, 7},
                    {},
                    {5, 5, 5, 1, 1, 1, 2, 2},
                    {},
                    hosts(8, 7),
                    {}};
  const auto alone = train_alone(what, way.size());
  const auto job = train_on(begins_in_one, 8, way);
  CHECK(first_difference(alone.parameters, job.parameters) == "");
  CHECK(alone.losses == job.losses);
}

TEST_CASE("moves in every step leave the bits of every kind of run") {
  auto check = [seed = 1U](const small_case& what) mutable {
    const auto processes = std::min(3, what.ranks * what.data_parallel);
    check_journey(what, processes, random_journey(what, processes, 6, ++seed));
  };
  check({.ranks = 3, .microbatches = 6, .clip = 0.5});
  check({.data_parallel = 2, .clip = 0.5});
  check({.data_parallel = 2, .tied = true, .dropout = 0.3});
  check({.schedule = "zb_v", .ranks = 3, .stages_per_rank = 2});
  check({.schedule = "dualpipe", .ranks = 4, .microbatches = 8});
  check({.schedule = "weight_stash", .ranks = 3, .microbatches = 6});
  check({.schedule = "two_bw", .ranks = 2, .microbatches = 8});
  check({.schedule = "seq_1f1b", .ranks = 2, .slices = 2});
  check({.dtypes = {.parameters = at::kBFloat16, .buffers = {}},
         .offload_optimizer = true});
  for (const auto mode : {shard_mode::gradients, shard_mode::all}) {
    small_case sharded{.data_parallel = 2, .clip = 0.5};
    sharded.sharding.mode = mode;
    check(sharded);
    sharded.tied = true;
    sharded.optimizer = muon{};
    check(sharded);
  }
}

TEST_CASE("ranks move between devices of several processes") {
  for (const bool device_links : {true, false}) {
    const small_case what{.ranks = 4, .clip = 0.5};
    const auto alone = train_alone(what, 4);
    const faked_accelerator watch;
    joined_meshes meshes(3);
    parameter_list together;
    const auto errors = in_all(meshes, [&](const auto& job) {
      auto options = options_for(what);
      options.job = job;
      options.devices = {std::make_shared<faked_accelerator>()};
      options.device_links = device_links;
      trainer run(model_for(what), options);
      for (const auto& next :
           journey{{}, {1, 0, 2, 1}, {2, 2, 2, 0}, {0, 1, 1, 2}}) {
        if (job->place().leads() && !next.empty())
          run.rehost(next);
        run.step(small_text());
      }
      const auto all = run.gather_parameters();
      if (job->place().leads())
        together = on_host(all);
    });
    CHECK(errors == std::vector<std::string>(errors.size()));
    CHECK(first_difference(alone.parameters, together) == "");
    CHECK(watch.races() == std::vector<std::string>{});
  }
}

TEST_CASE("monitors and requests outlive a move") {
  const small_case what{.ranks = 3, .microbatches = 6};
  std::atomic<int> steps_seen = 0, ops_seen = 0;
  joined_meshes meshes(3);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    const bool leads = job->place().leads();
    if (leads) {
      monitor watcher;
      watcher.name = "counter";
      watcher.wants.steps = true;
      watcher.wants.ops = true;
      watcher.see = [&](const event& each) {
        steps_seen += std::holds_alternative<step_event>(each);
        ops_seen += std::holds_alternative<ops_event>(each);
      };
      run.attach(std::move(watcher));
    }
    for (int i = 0; i < 4; ++i) {
      if (leads)
        run.rehost({i % 3, (i + 1) % 3, (i + 1) % 3});
      if (i == 2 && job->place().process == 1)
        run.request_save();
      if (i == 3 && leads)
        run.stop("enough");
      run.step(small_text());
    }
    require(run.take_save_request(), "is asked to save");
    require(run.ended().has_value(), "ends");
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  CHECK(steps_seen == 4);
  CHECK(ops_seen == 4 * 3);
}

TEST_CASE("a rank moves, and a process is drained, by what a user says") {
  CHECK(moved({0, 0, 1}, 1, 2) == hosts{0, 2, 1});
  CHECK(drained({0, 0, 1, 2}, 0, 3) == hosts{1, 2, 1, 2});
  CHECK(drained({1, 1, 0}, 1, 3) == hosts{2, 0, 0});
  CHECK(drained({0, 0}, 1, 2) == hosts{0, 0});
  CHECK_THROWS_MATCHES(moved({0, 0, 1}, 3, 0), error,
                       MessageMatches(ContainsSubstring("no rank 3 to move")));
  CHECK_THROWS_MATCHES(
    drained({0}, 1, 1), error,
    MessageMatches(ContainsSubstring("no process 1 to drain")));
  CHECK_THROWS_MATCHES(drained({0}, 0, 1), error,
                       MessageMatches(ContainsSubstring("the only one")));
  CHECK(moves_between(make_layout(0, 3, 1, 4, {0, 0, 1, 2}),
                      make_layout(0, 3, 1, 4, {1, 1, 1, 0}))
        == "ranks 0 and 1 moved from process 0 to process 1; rank 3 from "
           "process 2 to process 0");
}

TEST_CASE("what can't move is refused, and the run goes on") {
  const small_case what{.ranks = 2};
  auto alone = trainer_for(what, nullptr);
  CHECK_THROWS_MATCHES(
    alone.move(0, 0), error,
    MessageMatches(ContainsSubstring("is a run of one process")));
  std::vector<std::string> refusals;
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    const bool leads = job->place().leads();
    run.step(small_text());
    if (leads) {
      refusals = {refusal([&] { run.move(0, 2); }),
                  refusal([&] { run.rehost({0}); })};
      run.move(0, 1);
      require(run.hosting() == hosts{1, 1}, "moves rank 0");
    } else {
      require(refusal([&] { run.drain(0); }).ends_with("is process 1"),
              "does not lead");
    }
    run.step(small_text());
    run.step(small_text());
    require(run.hosting() == hosts{1, 1}, "has moved rank 0");
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK_THAT(refusals.at(0), ContainsSubstring("names process 2"));
  CHECK_THAT(refusals.at(1), ContainsSubstring("is for ranks"));
}

TEST_CASE("a hosting that devices can't reduce in is refused before a move") {
  joined_meshes meshes(3);
  const faked_accelerator watch;
  std::string why;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for({.ranks = 1, .data_parallel = 3});
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    trainer run(model_for({.ranks = 1}), options);
    if (job->place().leads())
      why = refusal([&] { run.move(0, 1); });
    run.step(small_text());
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK_THAT(why, ContainsSubstring("process 1 hosts 2 of 3 replicas"));
}
