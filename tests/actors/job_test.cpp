#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <latch>

#include "../engine/transport/joined_meshes.hpp"
#include "captured_log.hpp"
#include "catalogue_cases.hpp"
#include "job_trainings.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Waits until so many bytes in total have arrived, for at most a minute.
bool receives(const mesh& at, std::int32_t from, std::int64_t goal) {
  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + std::chrono::minutes(1);
  while (at.bytes_received(from) < goal && clock::now() < until)
    std::this_thread::yield();
  return at.bytes_received(from) >= goal;
}

}  // namespace

TEST_CASE("several processes train the same bits as one") {
  check_job_bits({}, 2);
  check_job_bits({.schedule = "gpipe", .ranks = 3, .clip = 0.5}, 3);
  small_case groups;
  groups.groups = {{.names = "blocks.0.*", .frozen = true}};
  check_job_bits(groups, 2);
  check_job_bits({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, 2);
  check_job_bits({.schedule = "eager_1f1b", .ranks = 4, .microbatches = 8}, 2);
  check_job_bits({.schedule = "zb_h1", .ranks = 3, .microbatches = 7}, 3);
  check_job_bits({.schedule = "zb_v", .ranks = 4, .stages_per_rank = 2}, 2);
  check_job_bits({.schedule = "seq_1f1b", .ranks = 3, .slices = 3}, 3);
  check_job_bits({.schedule = "dualpipe", .ranks = 4, .microbatches = 8}, 2);
  check_job_bits({.schedule = "two_bw", .ranks = 3, .microbatches = 7}, 3);
  check_job_bits({.schedule = "zb_h1",
                  .ranks = 3,
                  .microbatches = 6,
                  .offload = {.fraction = 1}},
                 3);
  check_job_bits({.schedule = "breadth_first",
                  .ranks = 4,
                  .stages_per_rank = 2,
                  .microbatches = 8,
                  .recompute = true},
                 4);
}

TEST_CASE("replicas of several processes average the same bits") {
  check_job_bits({.data_parallel = 2, .clip = 0.5}, 2);
  check_job_bits({.data_parallel = 2, .clip = 0.5}, 4);
  check_job_bits({.ranks = 1, .data_parallel = 3}, 3);
  check_job_bits({.ranks = 1, .data_parallel = 4}, 2);
  check_job_bits({.schedule = "dualpipe", .data_parallel = 2, .clip = 0.5}, 4);
  check_job_bits({.schedule = "weight_stash", .data_parallel = 2}, 4);
}

// A process for each rank of the pipeline, and for each replica.
TEST_CASE("each schedule trains the same bits over links", "[.full]") {
  for (const auto& what : catalogue_cases())
    check_job_bits(what, what.ranks * what.data_parallel);
}

TEST_CASE("a step's messages may arrive before the step begins there") {
  const small_case what{.ranks = 2, .microbatches = 8};
  const auto gpt = small_gpt();
  const std::int64_t rows = 2;
  const auto activation_bytes =
    rows * gpt.length * gpt.width * std::int64_t{sizeof(float)};
  joined_meshes meshes(2);
  std::latch counted(1);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    run.step(small_text());
    // An evaluation has more forwards in flight than a training step.
    if (job->place().leads()) {
      counted.wait();
    } else {
      const auto before = job->bytes_received(0);
      counted.count_down();
      expect(receives(*job, 0, before + 3 * activation_bytes),
             "messages arrive");
    }
    run.evaluate(small_text(), 8);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("inference gives all processes the last stage's outputs") {
  const small_case what{.ranks = 3};
  const auto inputs = tensor_list{small_text()->at(0).inputs.at(0)};
  auto alone = trainer_for(what, nullptr);
  const auto expected = alone.infer(inputs).at(0);
  joined_meshes meshes(3);
  std::atomic<int> equal = 0;
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    if (at::equal(run.infer(inputs).at(0), expected))
      ++equal;
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(equal == 3);
}

TEST_CASE("parameters are loaded where they live") {
  const small_case what{.ranks = 2};
  const auto values = train_in_job(what, 1).parameters;
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    run.load(values, "a file");
    const auto all = run.gather_parameters();
    if (job->place().leads())
      CHECK(first_difference(all, values) == "");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a failure in one process is reported in all") {
  joined_meshes meshes(3);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto options = options_for({.ranks = 3});
    options.job = job;
    if (job->place().process == 2)
      options.numerics.loss =
        [](const tensor_list&,
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

TEST_CASE("processes that cut the model otherwise are told so") {
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto options = options_for({});
    options.job = job;
    const auto layers = model_for({});
    const auto count = static_cast<std::int32_t>(layers.size());
    const auto first = job->place().leads() ? 1 : 2;
    options.split = {{0, first}, {first, count}};
    trainer run(layers, std::move(options));
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("the same split"));
}

TEST_CASE("16-bit shards of a frozen stage travel between processes") {
  small_case what{.ranks = 4, .microbatches = 4, .data_parallel = 2};
  what.dtypes.parameters = at::kBFloat16;
  what.groups = {{.names = "blocks.1.*", .frozen = true}};
  what.sharding.mode = shard_mode::all;
  check_job_bits(what, 2);
}

TEST_CASE("owners of whole matrices live in several processes") {
  for (const optimizer_options& optimizer :
       {optimizer_options{muon{}}, optimizer_options{adafactor{}}})
    for (const auto mode : {shard_mode::gradients, shard_mode::all}) {
      small_case what{.data_parallel = 3, .optimizer = optimizer, .tied = true};
      what.sharding.mode = mode;
      check_job_bits(what, 3);
    }
}

TEST_CASE("gradients of tied 16-bit weights travel in fp32") {
  small_case what{.microbatches = 2, .data_parallel = 2, .tied = true};
  what.dtypes.parameters = at::kBFloat16;
  auto sizes = small_gpt(2);
  sizes.vocabulary = 4096;  // the tied weight is nearly all of a stage
  sizes.tie_embeddings = true;
  joined_meshes meshes(4);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_for(what);
    options.job = job;
    trainer run(gpt(sizes), std::move(options));
    run.step(small_text());
    run.check_replicas();
  });
  for (const auto& each : errors)
    CHECK(each == "");
}

TEST_CASE("programs that part are stopped with what differs") {
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto run = trainer_for({}, job);
    run.step(small_text());
    if (job->place().leads())
      run.step(small_text());
    else
      run.step(small_text(), true);
  });
  for (const auto& each : errors)
    CHECK_THAT(each,
               ContainsSubstring("step 2: process 1 runs a different "
                                 "step from process 0")
                 && ContainsSubstring("skip_update: false in process 0, true"));
}

TEST_CASE("a process that leaves is named, with the ranks that waited for it") {
  joined_meshes meshes(3);
  const auto errors = in_all(meshes, [](const auto& job) {
    auto run = trainer_for({.ranks = 3}, job);
    run.step(small_text());
    if (job->place().process != 1)
      run.step(small_text());
  });
  CHECK(errors[1] == "");
  for (const auto p : {0U, 2U})
    CHECK_THAT(errors[p], ContainsSubstring("process 1 (rank 1) is gone"));
}

TEST_CASE("tensors of another run are refused, and everybody hears why") {
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [](const auto& job) {
    if (job->place().leads()) {
      trainer_for({}, job).step(small_text());
    } else {
      // Says who it is and what it holds, as a trainer does.
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

TEST_CASE("tensors that the plan has no place for are refused unread") {
  const auto tensors = [](std::int32_t from, std::int32_t to,
                          std::int32_t message, std::int64_t bytes) {
    stage_tensors message_frame;
    message_frame.header.run = 7;
    message_frame.header.from_stage = from;
    message_frame.header.to_stage = to;
    message_frame.header.message = message;
    message_frame.header.backward = from > to;
    message_frame.tensors = {at::empty({bytes}, at::kByte)};
    return to_frame(std::move(message_frame));
  };
  const std::int64_t large = std::int64_t{1} << 28;
  const std::vector<std::pair<frame, std::string>> strays{
    {tensors(0, 1, 0, 1),
     "from stage 0 to stage 1 of replica 0, which are not"},
    {tensors(1, 7, 0, 1), "from stage 1 to stage 7"},
    {tensors(1, 0, 999, 1), "sent message 999"},
    {tensors(1, 0, 0, large), "announces 268435456 bytes from stage 1"},
    {to_frame(collective_part{1, 0, 0, 0, at::empty({large}, at::kByte)}),
     "announces 268435456 bytes of gradients"}};
  for (const auto& [stray, answer] : strays) {
    joined_meshes meshes(2);
    const auto errors = in_all(meshes, [&](const auto& job) {
      auto run = trainer_for({}, job);
      run.step(small_text());
      if (!job->place().leads())
        job->send(0, stray);
      run.step(small_text());
    });
    CHECK_THAT(errors[0], ContainsSubstring(answer));
    CHECK(errors[1] != "");
  }
}

TEST_CASE(
  "what no plan has is not told to monitors: who tells of it is cut off") {
  const auto tensors_of = [](const event_source& at) {
    return to_frame(event(tensors_event{at}));
  };
  // The serial of the step that runs there is unknown, so several are sent.
  const auto far = [](std::int64_t serial) {
    return to_frame(control_message(
      rank_done{serial, 0, 1, {{serial, {1}, {}}}, {{.op = 999}}}));
  };
  const std::vector<std::pair<std::vector<frame>, std::string>> lies{
    {{far(0), far(1), far(2), far(3)}, "process 1 reports op 999"},
    {{to_frame(control_message(rank_done{1, 7}))}, "reports replica 7"},
    {{to_frame(control_message(rank_done{2, 0, 0}))}, "of rank 0 of replica 0"},
    {{tensors_of({.rank = 1, .stage = 5})}, "names rank 1, stage 5"},
    {{tensors_of({.rank = 9, .stage = 0})}, "names rank 9, stage 0"},
    {{to_frame(event(ops_event{}))}, "names rank -1"},
    {{to_frame(control_message(norm_verdict{1}))},
     "sent a command to the leading one"},
    {{to_frame(control_message(remote_begin{9}))},
     "sent a command to the leading one"}};
  for (const auto& [frames, answer] : lies) {
    joined_meshes meshes(2);
    const auto errors = in_all(meshes, [&](const auto& job) {
      auto run = trainer_for({}, job);
      run.step(small_text());
      if (!job->place().leads())
        for (const auto& each : frames)
          job->send(0, each);
      run.step(small_text());
    });
    CHECK_THAT(errors[0], ContainsSubstring(answer));
    CHECK(errors[1] != "");  // the reason, or that process 0 has ended
  }
}

TEST_CASE("a process that waits for the leader's next step says so") {
  const captured_log log;
  joined_meshes meshes(2);
  for (const auto& problem : in_all(meshes, [&](const auto& job) {
         auto options = options_for({});
         options.job = job;
         options.execution.limits.stall = 0.02;
         trainer run(model_for({}), options);
         run.step(small_text());
         const auto until =
           std::chrono::steady_clock::now() + std::chrono::seconds(30);
         while (job->place().leads()
                && log.text().find("step 2: waiting for process 0")
                     == std::string::npos
                && std::chrono::steady_clock::now() < until)
           std::this_thread::yield();
         run.step(small_text());
       }))
    CHECK(problem == "");
  CHECK_THAT(log.text(), ContainsSubstring("step 2: waiting for process 0"));
}
