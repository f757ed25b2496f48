// What processes of a job that heals know of each other.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <string>

#include "../engine/transport/joined_meshes.hpp"
#include "../expect.hpp"
#include "job_trainings.hpp"
#include "troupe/actors/copy_footprint.hpp"
#include "troupe/actors/job/job_members.hpp"
#include "troupe/actors/job/state_copies.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("processes know each other, and which states a second one holds") {
  const small_case what{.ranks = 2};
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for(what);
    options.job = job;
    options.healing.rejoin = no_rejoin;
    options.healing.copy_every = 2;
    options.healing.epoch = 7;
    trainer run(model_for(what), options);
    const auto first = run.members();
    expect(first.epoch == 7 && first.processes.size() == 2, "two members");
    expect(first.processes[1].pid == ::getpid(), "their ids");
    expect(first.hosting == std::vector<std::int32_t>{0, 1}, "hosting");
    expect(!first.copied, "no copies are known");
    for (int i = 0; i < 4; ++i)
      run.step(small_text());
    const auto later = run.members();
    expect(later.copied == 0, "copies before step 3 may be on their way");
    expect(later.held_bytes > 0, "copies");
    expect(later.processes[0].seconds > first.processes[0].seconds, "age");
  });
  CHECK(errors == std::vector<std::string>(2));
}

namespace {

/// What the processes hold in a run, by process; each after several copies.
std::vector<std::int64_t> held_in_run(const small_case& what,
                                      std::int32_t processes) {
  joined_meshes meshes(processes);
  std::vector<std::int64_t> held(static_cast<std::size_t>(processes));
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for(what);
    options.job = job;
    options.healing.rejoin = no_rejoin;
    trainer run(model_for(what), options);
    for (int i = 0; i < 4; ++i)
      run.step(small_text());
    job->barrier();  // behind the copies
    run.step(small_text());
    held[static_cast<std::size_t>(job->place().process)] =
      run.members().held_bytes;
    job->barrier();
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  return held;
}

void check_footprint(const small_case& what, std::int32_t processes) {
  INFO(describe(what));
  const auto layers = model_for(what);
  auto options = options_for(what);
  const auto& places = options.schedule.placement;
  options.split = split(layers, places.stages());
  const auto told =
    copies_in(state_bytes(layers, options), places,
              make_layout(0, processes, what.data_parallel, places.ranks),
              options.sharding.shards());
  const auto held = held_in_run(what, processes);
  REQUIRE(told.processes.size() == held.size());
  for (std::size_t p = 0; p < held.size(); ++p) {
    const auto exact = static_cast<double>(held[p]);
    CHECK(std::abs(static_cast<double>(told.processes[p]) - exact)
          <= 0.03 * exact);
  }
}

}  // namespace

TEST_CASE("the memory of copies is known before a run") {
  check_footprint({.ranks = 3, .microbatches = 6}, 3);
  check_footprint({.ranks = 2}, 1);
  check_footprint({.data_parallel = 2}, 2);
  check_footprint({.schedule = "zb_v", .ranks = 2, .stages_per_rank = 2}, 2);
  small_case sharded{.data_parallel = 2};
  sharded.sharding.mode = shard_mode::all;
  check_footprint(sharded, 2);
}

TEST_CASE("the bytes of states that move are known before they do") {
  const auto held = [](std::int32_t stage, std::int64_t step,
                       std::int64_t bytes) {
    return held_state{{0, {stage}}, {.step = step}, bytes};
  };
  const std::map<stage_place, std::int32_t> hosts{{{0, {0}}, 0}, {{0, {1}}, 1}};
  const auto same = [](const stage_place& a, const stage_place& b) {
    return a == b;
  };
  const auto both =
    choose_recovery({{held(0, 5, 10)}, {held(1, 5, 20)}}, hosts, same);
  CHECK(both->moved_bytes == 0);
  const auto one =
    choose_recovery({{held(0, 5, 10), held(1, 5, 20)}, {}}, hosts, same);
  CHECK(one->moved_bytes == 20);
}
