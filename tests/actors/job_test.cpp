#include <ATen/ops/_neg_view.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../engine/transport/joined_meshes.hpp"
#include "small_model.hpp"
#include "troupe/actors/wire_messages.hpp"
#include "troupe/schedules/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

trainer make(const small_case& what, const std::shared_ptr<mesh>& job) {
  auto options = options_for(what);
  options.job = job;
  return trainer(model_for(what), std::move(options));
}

struct trained {
  parameter_list parameters;
  std::vector<double> losses;
};

/// Of a job of so many processes; 1: without one.
trained train(const small_case& what, std::int32_t processes, int steps = 3) {
  trained result;
  const auto program = [&](const std::shared_ptr<mesh>& job) {
    auto run = make(what, job);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i)
      losses.push_back(run.step(small_text()).summary.losses.at(0).value);
    losses.push_back(run.evaluate(small_text(), 4).losses.at(0).value);
    run.check_replicas();
    auto all = run.gather_parameters();
    if (job && !job->place().leads())
      return;
    for (auto& [name, value] : all)
      result.parameters.emplace_back(name, value.clone());
    result.losses = losses;
  };
  if (processes == 1) {
    program(nullptr);
    return result;
  }
  joined_meshes meshes(processes);
  for (const auto& error : in_all(meshes, program))
    CHECK(error == "");
  return result;
}

void check_same(const small_case& what, std::int32_t processes) {
  INFO(describe(what) << " in " << processes << " processes");
  const auto alone = train(what, 1);
  const auto job = train(what, processes);
  CHECK(first_difference(alone.parameters, job.parameters) == "");
  CHECK(alone.losses == job.losses);
}

/// Looks until so many bytes more have come, for at most a minute.
bool receives(const mesh& at, std::int32_t from, std::int64_t bytes) {
  using clock = std::chrono::steady_clock;
  const auto goal = at.bytes_received(from) + bytes;
  const auto until = clock::now() + std::chrono::minutes(1);
  while (at.bytes_received(from) < goal && clock::now() < until)
    std::this_thread::yield();
  return at.bytes_received(from) >= goal;
}

}  // namespace

TEST_CASE("several processes train the same bits as one") {
  check_same({}, 2);
  check_same({.schedule = "gpipe", .ranks = 3, .clip = 0.5}, 3);
  check_same({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, 2);
  check_same({.schedule = "eager_1f1b", .ranks = 4, .microbatches = 8}, 2);
  check_same({.schedule = "breadth_first",
              .ranks = 4,
              .stages_per_rank = 2,
              .microbatches = 8,
              .recompute = true},
             4);
}

TEST_CASE("replicas of several processes average the same bits") {
  check_same({.data_parallel = 2, .clip = 0.5}, 2);
  check_same({.data_parallel = 2, .clip = 0.5}, 4);
  check_same({.ranks = 1, .data_parallel = 3}, 3);
  check_same({.ranks = 1, .data_parallel = 4}, 2);
}

TEST_CASE("what a step sends may come before the step begins there") {
  const small_case what{.ranks = 2, .microbatches = 8};
  const auto gpt = small_gpt();
  const std::int64_t rows = 2;
  const auto activation_bytes =
    rows * gpt.length * gpt.width * std::int64_t{sizeof(float)};
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make(what, job);
    run.step(small_text());
    // An evaluation has more forwards under way than a step of training.
    if (!job->place().leads())
      CHECK(receives(*job, 0, 3 * activation_bytes));
    run.evaluate(small_text(), 8);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("inference gives all processes the last stage's outputs") {
  const small_case what{.ranks = 3};
  const auto inputs = tensor_list{small_text()->at(0).inputs.at(0)};
  auto alone = make(what, nullptr);
  const auto expected = alone.infer(inputs).at(0);
  joined_meshes meshes(3);
  std::atomic<int> equal = 0;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make(what, job);
    if (at::equal(run.infer(inputs).at(0), expected))
      ++equal;
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(equal == 3);
}

TEST_CASE("parameters are loaded where they live") {
  const small_case what{.ranks = 2};
  const auto values = train(what, 1).parameters;
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make(what, job);
    run.load(values, "a file");
    const auto all = run.gather_parameters();
    if (job->place().leads())
      CHECK(first_difference(all, values) == "");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("monitors of the leader see the ranks of all processes") {
  const small_case what{.ranks = 2, .microbatches = 2};
  joined_meshes meshes(2);
  std::mutex mutex;
  std::set<std::int32_t> ops, stages;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make(what, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.name = "both";
      watcher.wants = {.ops = true, .tensors = tensor_kind::activation};
      watcher.see = [&](const event& seen) {
        const std::scoped_lock lock(mutex);
        if (const auto* of_ops = std::get_if<ops_event>(&seen))
          ops.insert(of_ops->source.rank);
        if (const auto* of_tensors = std::get_if<tensors_event>(&seen))
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

TEST_CASE("messages are told of by those who received them, and memory") {
  const small_case what{.ranks = 2, .microbatches = 2};
  joined_meshes meshes(2);
  std::map<std::int32_t, messages_event> received;
  std::map<std::int32_t, memory_event> memory;
  std::map<std::int32_t, std::int64_t> waited;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make(what, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.name = "messages";
      watcher.wants = {.messages = true, .memory = true};
      watcher.see = [&](const event& seen) {
        if (const auto* messages = std::get_if<messages_event>(&seen)) {
          received[messages->source.rank] = *messages;
          waited[messages->source.rank] += messages->messages.at(0).wait;
        }
        if (const auto* of_rank = std::get_if<memory_event>(&seen))
          memory[of_rank->source.rank] = *of_rank;
      };
      run.attach(watcher);
    }
    // One step's wait may be 0 on a busy machine, not that of all.
    for (int i = 0; i < 20; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  REQUIRE(received.size() == 2);
  std::set<std::int32_t> numbers;
  for (const auto& [rank, of_rank] : received) {
    // An activation of each microbatch one way, a gradient back.
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
    CHECK(memory[rank].resident_bytes < memory[rank].machine_bytes);
  }
  CHECK(numbers == std::set{0, 1, 2, 3});
  CHECK(waited[0] > 0);  // its gradient is far
}

TEST_CASE("times of all processes are told by the leader's clock") {
  constexpr std::int64_t hour = 3'600'000'000'000;
  joined_meshes meshes(2);
  for (const auto& each : meshes.all)
    each->set_clock_offsets({0, hour});
  std::vector<std::int64_t> begins(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = make({.microbatches = 2}, job);
    const auto report = run.step(small_text());
    if (job->place().leads())
      for (const auto& rank : report.ops)
        begins[static_cast<std::size_t>(rank.source.rank)] =
          rank.ops.front().begin;
  });
  CHECK(errors == std::vector<std::string>(2));
  // Both read the same clock here, so that the other's seems an hour ahead.
  CHECK(begins[1] - begins[0] > hour - hour / 60);
  CHECK(begins[1] - begins[0] < hour + hour / 60);
}

TEST_CASE("a failure in one process is told in all") {
  joined_meshes meshes(3);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto options = options_for({.ranks = 3});
    options.job = job;
    if (job->place().process == 2)
      options.loss = [](const tensor_list&,
                        const microbatch_data&) -> std::vector<loss_term> {
        throw std::runtime_error("no loss today");
      };
    trainer run(model_for({.ranks = 3}), std::move(options));
    run.step(small_text());
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("step 1, rank 2, op 2F0 (stage 2, "
                                       "microbatch 0, replica 0): no loss "
                                       "today"));
}

TEST_CASE("programs that part are stopped with what differs") {
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto run = make({}, job);
    run.step(small_text());
    if (job->place().leads())
      run.step(small_text());
    else
      run.step(small_text(), true);
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("another step than process 0")
                       && ContainsSubstring("skip_update: false there, true"));
}

TEST_CASE("a process that leaves is named, with who waited for it") {
  joined_meshes meshes(3);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto run = make({.ranks = 3}, job);
    run.step(small_text());
    if (job->place().process != 1)
      run.step(small_text());
  });
  CHECK(errors[1] == "");
  for (const auto p : {0U, 2U})
    CHECK_THAT(errors[p], ContainsSubstring("process 1 (rank 1) is gone"));
}

TEST_CASE("monitors learn that a process is gone") {
  joined_meshes meshes(2);
  std::string reason;
  in_all(meshes, [&](const auto& job) {
    auto run = make({.ranks = 2}, job);
    if (job->place().leads()) {
      monitor watcher;
      watcher.see = [&](const event& seen) {
        if (const auto* failure = std::get_if<failure_event>(&seen))
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

TEST_CASE("tensors that can't travel are left out of what monitors are told") {
  tensor_record record;
  record.owner = std::make_shared<const tensor_owner>();
  record.tensor = at::ones({2}, at::kComplexFloat);
  auto twice = record;
  twice.tensor = at::_neg_view(at::ones({2}));
  const event sent = tensors_event{{}, false, 1, {record, twice}};
  const auto read = read_control(to_frame(sent));
  const auto& told = std::get<tensors_event>(std::get<event>(read)).tensors;
  CHECK_FALSE(told[0].tensor.defined());
  CHECK(at::equal(told[1].tensor, at::full({2}, -1.0)));
}

TEST_CASE("slow loads of all processes are told") {
  joined_meshes meshes(2);
  std::atomic<int> told = 0;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for({.ranks = 2});
    options.job = job;
    options.slow_load_seconds = 1e-9;
    trainer run(model_for({.ranks = 2}), std::move(options));
    if (job->place().leads()) {
      monitor watcher;
      watcher.see = [&](const event& seen) {
        told += std::holds_alternative<slow_load_event>(seen);
      };
      run.attach(watcher);
    }
    for (int i = 0; i < 2; ++i)
      run.step(small_text());
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(told >= 2 * 2 * 4);  // both processes load each microbatch of a step
}

TEST_CASE("tensors of another run are refused, and everybody hears why") {
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [](const auto& job) {
    if (job->place().leads()) {
      make({}, job).step(small_text());
    } else {
      // It says whom it is and what it holds, as a trainer does.
      auto options = options_for({});
      options.job = job;
      trainer run(model_for({}), std::move(options));
      stage_tensors stray;
      stray.header.run = 8;
      job->send(0, to_frame(std::move(stray)));
      run.step(small_text());
    }
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("sent a tensor of another run"));
}

TEST_CASE(
  "what no plan has is not told to monitors: who tells of it is cut off") {
  const auto told = [](const event_source& at) {
    return to_frame(event(tensors_event{at}));
  };
  // Of whichever step runs there.
  const auto far = [](std::int64_t serial) {
    return to_frame(control_message(
      rank_done{serial, 0, 1, {{serial, 1, {}, {{.op = 999}}}}}));
  };
  const std::vector<std::pair<std::vector<frame>, std::string>> lies{
    {{far(0), far(1), far(2), far(3)}, "process 1 reports op 999"},
    {{to_frame(control_message(rank_done{1, 7}))}, "reports replica 7"},
    {{told({.rank = 1, .stage = 5})}, "tells of rank 1, stage 5"},
    {{told({.rank = 9, .stage = 0})}, "tells of rank 9, stage 0"},
    {{to_frame(event(ops_event{}))}, "tells of rank -1"}};
  for (const auto& [frames, answer] : lies) {
    joined_meshes meshes(2);
    const auto errors = in_all(meshes, [&](const auto& job) {
      auto run = make({}, job);
      run.step(small_text());
      if (!job->place().leads())
        for (const auto& each : frames)
          job->control(0, each);
      run.step(small_text());
    });
    CHECK_THAT(errors[0], ContainsSubstring(answer));
    CHECK(errors[1] != "");  // why, or that process 0 is gone
  }
}

TEST_CASE("ranks that processes can't share equally are refused") {
  joined_meshes meshes(2);
  const auto errors =
    in_all(meshes, [](const auto& job) { make({.ranks = 3}, job); });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("3 pipeline ranks x 1 replicas are 3 "
                                       "ranks, which 2 processes can't share"));
}
