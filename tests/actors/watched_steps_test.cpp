// Steps that monitors watch are run again after a hit, and change nothing.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "../engine/transport/joined_meshes.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "small_model.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/compile/compile.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t steps = 4;

/// What a monitor has seen, by step.
struct seen_steps {
  std::vector<std::int64_t> outcomes;
  std::map<std::int64_t, int> ops, messages, memory;
  std::map<std::pair<std::int64_t, step_reading>, int> tensors;

  monitor watch(bool watches, tensor_kind kinds) {
    monitor watcher;
    watcher.name = watches ? "watches" : "reads";
    watcher.wants = {.ops = true,
                     .messages = true,
                     .memory = true,
                     .tensors = kinds,
                     .needs = tensor_needs::extremes,
                     .watches = watches};
    watcher.see = [this](const event& what) {
      const auto step = source_of(what).step;
      ops[step] += std::holds_alternative<ops_event>(what);
      messages[step] += std::holds_alternative<messages_event>(what);
      memory[step] += std::holds_alternative<memory_event>(what);
      if (std::holds_alternative<step_event>(what))
        outcomes.push_back(step);
      if (const auto* of = std::get_if<tensors_event>(&what))
        ++tensors[{step, of->reading}];
    };
    return watcher;
  }
};

struct watched_run {
  parameter_list parameters;
  seen_steps watcher, reader;
};

/// Trains with a monitor that watches all tensors and one that reads
/// activations; without `monitors` neither is there.
watched_run train_watched(const small_case& what, bool monitors,
                          std::shared_ptr<mesh> job = nullptr,
                          const device_pointer& device = nullptr) {
  watched_run result;
  auto options = options_for(what);
  options.job = std::move(job);
  if (device)
    options.devices = {device};
  trainer run(model_for(what), options);
  if (monitors && (!options.job || options.job->place().leads())) {
    run.attach(result.watcher.watch(
      true, module_kinds | tensor_kind::gradient | tensor_kind::loss));
    run.attach(result.reader.watch(false, tensor_kind::activation));
  }
  for (std::int64_t i = 0; i < steps; ++i)
    run.step(small_text());
  run.finish_monitors();
  const auto all = run.gather_parameters();
  for (const auto& [name, value] : on_host(all))
    result.parameters.emplace_back(name, value.clone());
  return result;
}

/// Each monitor has seen all steps, and each of their events once.
void check_seen_once(const small_case& what, const seen_steps& seen) {
  std::vector<std::int64_t> all(steps);
  std::iota(all.begin(), all.end(), 1);
  CHECK(seen.outcomes == all);
  for (const auto step : all) {
    CAPTURE(step);
    CHECK(seen.ops.at(step) == what.ranks * what.data_parallel);
    CHECK(seen.messages.at(step) == seen.ops.at(step));
    CHECK(seen.memory.at(step) == seen.ops.at(step));
  }
}

/// The first step is read once; others are watched, and have a hit.
void check_tensors(const watched_run& run) {
  using enum step_reading;
  CHECK(run.watcher.tensors.size() == steps);
  CHECK(run.reader.tensors.size() == steps);
  for (std::int64_t step = 2; step <= steps; ++step) {
    CAPTURE(step);
    CHECK(run.watcher.tensors.at({step, again})
          == run.watcher.tensors.at({1, once}));
    CHECK(run.reader.tensors.at({step, watched})
          == run.reader.tensors.at({1, once}));
  }
}

small_case sharded_case(shard_mode mode) {
  small_case what{.data_parallel = 2, .clip = 0.5};
  what.sharding.mode = mode;
  return what;
}

std::vector<small_case> cases() {
  std::vector<small_case> all{
    {.schedule = "gpipe", .ranks = 3, .microbatches = 6},
    {.clip = 0.5, .dropout = 0.3},
    {.recompute = true, .tied = true},
    {.data_parallel = 2, .loss_scale = {1024, true}},
    {.schedule = "zb_v", .stages_per_rank = 2},
    {.schedule = "dualpipe", .microbatches = 8},
    {.schedule = "seq_1f1b", .slices = 2, .dropout = 0.2},
    {.order = lane_order::ready_first},
    sharded_case(shard_mode::gradients),
    sharded_case(shard_mode::all)};
  for (auto& each : all)
    each.hits = true;
  return all;
}

}  // namespace

TEST_CASE("a step with a hit runs again, with its bits, and is seen once") {
  for (const auto& what : cases()) {
    INFO(describe(what));
    const auto run = train_watched(what, true);
    check_seen_once(what, run.watcher);
    check_seen_once(what, run.reader);
    check_tensors(run);
    CHECK(
      first_difference(train_watched(what, false).parameters, run.parameters)
      == "");
  }
}

TEST_CASE("a watched step shows a watcher nothing unless it has a hit") {
  const small_case what{.clip = 1};
  const auto run = train_watched(what, true);
  CHECK(run.watcher.tensors.size() == 1);
  CHECK(run.watcher.tensors.contains({1, step_reading::once}));
  CHECK(run.reader.tensors.size() == steps);
  check_seen_once(what, run.watcher);
  check_seen_once(what, run.reader);
}

TEST_CASE("all steps are read where updates don't wait for the gradients") {
  for (const auto* schedule : {"1f1b", "two_bw"}) {
    const small_case what{.schedule = schedule};
    const auto run = train_watched(what, true);
    for (std::int64_t step = 1; step <= steps; ++step)
      CHECK(run.watcher.tensors.contains({step, step_reading::once}));
  }
}

TEST_CASE("updates are held as a given plan has it") {
  const small_case what{.ranks = 2};
  for (const bool waits : {false, true}) {
    auto options = options_for(what);
    options.execution.holds_updates = true;
    options.plan = std::make_shared<const plan>(
      compile(options.schedule, {.global_norm = waits}));
    seen_steps watcher;
    trainer run(model_for(what), options);
    run.attach(watcher.watch(true, tensor_kind::loss));
    for (std::int64_t i = 0; i < steps; ++i)
      run.step(small_text());
    run.finish_monitors();
    CHECK(watcher.tensors.size() == (waits ? 1 : steps));
  }
}

TEST_CASE("a job of two processes runs a step with a hit again in both") {
  for (const auto& what :
       {small_case{.ranks = 2, .dropout = 0.3, .hits = true},
        small_case{.ranks = 1, .data_parallel = 2, .hits = true}}) {
    INFO(describe(what));
    joined_meshes meshes(2);
    watched_run leading;
    const auto errors = in_all(meshes, [&](const auto& job) {
      const bool leads = job->place().leads();
      auto run = train_watched(what, true, job);
      if (leads)
        leading = std::move(run);
    });
    CHECK(errors == std::vector<std::string>(2));
    check_seen_once(what, leading.watcher);
    check_tensors(leading);
    CHECK(first_difference(train_watched(what, false).parameters,
                           leading.parameters)
          == "");
  }
}

TEST_CASE("steps on a device are watched there") {
  const faked_accelerator races;
  for (const bool hits : {false, true}) {
    const small_case what{.clip = 1, .hits = hits};
    const auto device = std::make_shared<faked_accelerator>();
    const auto run = train_watched(what, true, nullptr, device);
    check_seen_once(what, run.watcher);
    CHECK(run.watcher.tensors.size() == (hits ? steps : 1));
    CHECK(
      first_difference(train_watched(what, false, nullptr, device).parameters,
                       run.parameters)
      == "");
  }
  CHECK(races.races() == std::vector<std::string>{});
}
