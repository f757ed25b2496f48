#include <ATen/ops/_neg_view.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "../engine/transport/joined_meshes.hpp"
#include "captured_log.hpp"
#include "small_model.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("monitors of the leader see the ranks of all processes") {
  const small_case what{.ranks = 2, .microbatches = 2};
  joined_meshes meshes(2);
  std::mutex mutex;
  std::set<std::int32_t> ops, stages;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.name = "both";
      watcher.wants = {.ops = true, .tensors = tensor_kind::activation};
      watcher.see = [&](const event& event) {
        const std::scoped_lock lock(mutex);
        if (const auto* of_ops = std::get_if<ops_event>(&event))
          ops.insert(of_ops->source.rank);
        if (const auto* of_tensors = std::get_if<tensors_event>(&event))
          stages.insert(of_tensors->source.stage);
      };
      run.attach(watcher);
    }
    for (int i = 0; i < 2; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(ops == std::set{0, 1});
  CHECK(stages == std::set{0, 1});
}

TEST_CASE("names of stages in other processes are known to monitors") {
  const auto processes = GENERATE(1, 2);
  CAPTURE(processes);
  joined_meshes meshes(static_cast<std::size_t>(processes));
  const captured_log log;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for({.ranks = 2, .microbatches = 2}, job);
    monitor watcher;
    watcher.name = std::to_string(job->place().process);
    watcher.wants.tensors = tensor_kind::activation;
    watcher.wants.names = "nothing.*,tok,head,blocks.0.mlp,head.weight";
    watcher.see = [](const event&) {};
    run.attach(watcher);
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  for (int p = 0; p < processes; ++p)
    CHECK_THAT(
      log.text(),
      ContainsSubstring("monitor " + std::to_string(p)
                        + ": no module or parameter is named 'nothing.*'\n"));
}

TEST_CASE("messages and memory are reported by the receiving processes") {
  const small_case what{.ranks = 2, .microbatches = 2};
  joined_meshes meshes(2);
  std::map<std::int32_t, messages_event> received;
  std::map<std::int32_t, memory_event> memory;
  std::map<std::int32_t, std::int64_t> waited;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.name = "messages";
      watcher.wants = {.messages = true, .memory = true};
      watcher.see = [&](const event& event) {
        if (const auto* messages = std::get_if<messages_event>(&event)) {
          received[messages->source.rank] = *messages;
          waited[messages->source.rank] += messages->messages.at(0).wait;
        }
        if (const auto* of_rank = std::get_if<memory_event>(&event))
          memory[of_rank->source.rank] = *of_rank;
      };
      run.attach(watcher);
    }
    // On a busy machine the wait of one step may be 0, but not of all steps.
    for (int i = 0; i < 20; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  REQUIRE(received.size() == 2);
  std::set<std::int32_t> numbers;
  for (const auto& [rank, of_rank] : received) {
    // An activation of each microbatch in one direction, a gradient in the
    // other.
    REQUIRE(of_rank.messages.size() == 2);
    for (const auto& each : of_rank.messages) {
      numbers.insert(each.message);
      CHECK(each.bytes == received[0].messages[0].bytes);
      CHECK(each.sent <= each.left);
      CHECK(each.left <= each.arrived);
      CHECK(each.arrived <= each.taken);
      CHECK(each.wait >= 0);
    }
    CHECK(of_rank.messages[0].bytes > 0);
    CHECK(memory[rank].resident_bytes > 1 << 20);
    CHECK(memory[rank].resident_bytes <= memory[rank].peak_resident_bytes);
    CHECK(memory[rank].resident_bytes < memory[rank].usable_bytes);
  }
  CHECK(numbers == std::set{0, 1, 2, 3});
  CHECK(waited[0] > 0);  // its gradient is far
}

TEST_CASE("times of all processes are given by the leader's clock") {
  constexpr std::int64_t hour = 3'600'000'000'000;
  joined_meshes meshes(2);
  for (const auto& each : meshes.all)
    each->set_clock_offsets({0, hour});
  std::vector<std::int64_t> begins(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for({.microbatches = 2}, job);
    const auto report = run.step(small_text());
    if (job->place().leads())
      for (const auto& rank : report.ops)
        begins[static_cast<std::size_t>(rank.source.rank)] =
          rank.ops.front().begin;
  });
  CHECK(errors == std::vector<std::string>(2));
  // Both read the same clock here, so the other's clock seems an hour ahead.
  CHECK(begins[1] - begins[0] > hour - hour / 60);
  CHECK(begins[1] - begins[0] < hour + hour / 60);
}

TEST_CASE("monitors learn that a process is gone") {
  joined_meshes meshes(2);
  std::string reason;
  in_all(meshes, [&](const auto& job) {
    auto run = trainer_for({.ranks = 2}, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.see = [&](const event& event) {
        if (const auto* failure = std::get_if<failure_event>(&event))
          reason = failure->reason;
      };
      run.attach(watcher);
    }
    run.step(small_text());
    if (!job->place().leads())
      return;
    try {
      run.step(small_text());
    } catch (const error&) {
      run.finish_monitors();
      throw;
    }
  });
  CHECK_THAT(reason, ContainsSubstring("process 1 (rank 1) is gone"));
}

TEST_CASE("tensors that can't be sent are left out of events") {
  tensor_record record;
  record.owner = std::make_shared<const tensor_owner>();
  record.tensor = at::ones({2}, at::kComplexFloat);
  auto twice = record;
  twice.tensor = at::_neg_view(at::ones({2}));
  const event sent = tensors_event{{}, false, 1, {record, twice}};
  const auto read = read_control(to_frame(sent));
  const auto& tensors = std::get<tensors_event>(std::get<event>(read)).tensors;
  CHECK_FALSE(tensors[0].tensor.defined());
  CHECK(at::equal(tensors[1].tensor, at::full({2}, -1.0)));
}

namespace {

/// Parameters and gradients of two steps, by step, kind and name.
struct recorded_parameters {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, tensor_statistics> statistics;

  monitor watch() {
    monitor watcher;
    watcher.wants.tensors = tensor_kind::parameter | tensor_kind::gradient;
    watcher.wants.needs = tensor_needs::handle | tensor_needs::statistics;
    watcher.see = [this](const event& what) {
      if (const auto* op = std::get_if<tensors_event>(&what))
        for (const auto& record : op->tensors) {
          const auto key = std::to_string(op->source.step) + ' '
                           + to_text(record.kind) + ' ' + record.owner->name;
          tensors[key] = record.tensor;
          statistics[key] = record.statistics;
        }
    };
    return watcher;
  }
};

recorded_parameters parameters_in(const small_case& what,
                                  std::size_t processes) {
  recorded_parameters result;
  joined_meshes meshes(processes);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, processes == 1 ? nullptr : job);
    if (job->place().leads())
      run.attach(result.watch());
    for (int i = 0; i < 2; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(processes));
  return result;
}

}  // namespace

TEST_CASE("monitors see whole parameters and gradients, however sharded") {
  small_case what{.microbatches = 2, .data_parallel = 2, .use_sgd = true};
  what.groups = {{.names = "blocks.1.*", .frozen = true}};
  const auto whole = parameters_in(what, 1);
  CHECK(whole.tensors.size() == 96);
  const auto mode = GENERATE(shard_mode::gradients, shard_mode::all);
  const auto processes = GENERATE(1, 4);
  CAPTURE(mode, processes);
  what.sharding.mode = mode;
  what.sharding.multiple = 32;
  const auto sharded = parameters_in(what, static_cast<std::size_t>(processes));
  REQUIRE(sharded.tensors.size() == whole.tensors.size());
  for (const auto& [name, tensor] : whole.tensors) {
    INFO(name);
    REQUIRE(sharded.tensors.contains(name));
    CHECK(at::equal(sharded.tensors.at(name), tensor));
    const auto& statistics = sharded.statistics.at(name);
    const auto& expected = whole.statistics.at(name);
    CHECK(statistics.count == expected.count);
    CHECK(statistics.max_abs == expected.max_abs);
    CHECK(statistics.mean == Approx(expected.mean).margin(1e-9));
    CHECK(statistics.variance() == Approx(expected.variance()).margin(1e-12));
  }
}

TEST_CASE("slow loads of all processes are reported") {
  joined_meshes meshes(2);
  std::atomic<int> reports = 0;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for({.ranks = 2});
    options.job = job;
    options.execution.loading.slow_seconds = 1e-9;
    trainer run(model_for({.ranks = 2}), std::move(options));
    if (job->place().leads()) {
      monitor watcher;
      watcher.see = [&](const event& event) {
        reports += std::holds_alternative<slow_load_event>(event);
      };
      run.attach(watcher);
    }
    for (int i = 0; i < 2; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(reports >= 2 * 2 * 4);  // both processes load each microbatch of a step
}
