#include "troupe/actors/recording/graph_steps.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <mutex>

#include "../engine/transport/joined_meshes.hpp"
#include "../random_delays.hpp"
#include "faked_accelerator.hpp"
#include "graph_run.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("steps that are launched whole train the same bits") {
  compare_graphs(
    {.schedule = "1f1b", .ranks = 3, .microbatches = 4, .clip = 0.5});
  compare_graphs({.schedule = "gpipe", .ranks = 2, .recompute = true});
  compare_graphs({.schedule = "eager_1f1b", .ranks = 2, .use_sgd = true});
  compare_graphs(
    {.schedule = "interleaved_1f1b", .ranks = 2, .stages_per_rank = 2});
  compare_graphs({.schedule = "breadth_first",
                  .ranks = 2,
                  .stages_per_rank = 2,
                  .clip = 0.5});
  compare_graphs({.schedule = "1f1b", .ranks = 1, .microbatches = 1});
  compare_graphs({.schedule = "zb_v", .ranks = 2, .stages_per_rank = 2});
  compare_graphs({.schedule = "seq_1f1b", .ranks = 2, .slices = 2});
}

TEST_CASE("launched steps draw the random numbers of their step") {
  small_case what{.ranks = 2, .clip = 0.5};
  what.dropout = 0.2;
  for (const auto* schedule : {"1f1b", "zb_h1", "seq_1f1b"}) {
    what.schedule = schedule;
    what.slices = what.schedule == "seq_1f1b" ? 2 : 1;
    compare_graphs(what);
  }
  compare_graphs({.schedule = "1f1b",
                  .ranks = 2,
                  .data_parallel = 2,
                  .recompute = true,
                  .dropout = 0.2});
}

TEST_CASE("replicas are averaged within the recorded steps") {
  compare_graphs({.schedule = "1f1b", .data_parallel = 2, .clip = 0.5});
  compare_graphs({.schedule = "gpipe", .ranks = 2, .data_parallel = 2});
  compare_graphs({.schedule = "1f1b", .clip = 0.5, .tied = true});
  compare_graphs({.schedule = "interleaved_1f1b",
                  .stages_per_rank = 2,
                  .data_parallel = 2,
                  .tied = true});
  compare_graphs({.schedule = "interleaved_1f1b",
                  .ranks = 2,
                  .stages_per_rank = 2,
                  .data_parallel = 3,
                  .clip = 0.5});
  graph_run without_overlap({.schedule = "gpipe", .data_parallel = 2});
  without_overlap.options.overlap = {false, false, false};
  without_overlap.options.execution.loading.prefetch = 0;
  without_overlap.compare({.recordings = 1, .launches = 4});
}

TEST_CASE("delays in every actor change no bit of launched steps") {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    graph_run delayed({.schedule = "interleaved_1f1b",
                       .stages_per_rank = 2,
                       .data_parallel = 2,
                       .clip = 0.5});
    delayed.options.execution.handler_hook = random_delays(seed);
    delayed.compare({.recordings = 1, .launches = 4});
  }
}

TEST_CASE("another loss scale is recorded anew") {
  graph_run grown({.ranks = 2, .autocast = at::kHalf});
  grown.steps = 8;
  grown.options.numerics.loss_scale = {256, true, 2};
  grown.compare({.recordings = 4, .launches = 7});
  graph_run overflowing({.ranks = 2, .autocast = at::kHalf});
  overflowing.options.numerics.loss_scale = {0x1p40, true, 2000};
  overflowing.compare({.recordings = 4, .launches = 4});
  CHECK(overflowing.with_graphs().skipped > 0);
  graph_run constant({.ranks = 2, .autocast = at::kBFloat16});
  constant.options.numerics.loss_scale = {64};
  constant.compare({.recordings = 1, .launches = 4});
}

TEST_CASE("evaluations go between launched steps") {
  graph_run evaluated({.ranks = 2, .data_parallel = 2, .clip = 0.5});
  evaluated.before = [](trainer& run, std::int64_t) {
    return run.evaluate(small_text(), 8).losses.at(0).value;
  };
  evaluated.compare({.recordings = 1, .launches = 4});
}

TEST_CASE("steps of other shapes run as usual, and leave the graph") {
  graph_run odd({.ranks = 2, .data_parallel = 2, .clip = 0.5});
  odd.steps = 7;
  odd.source = make_source([](std::int64_t index) {
    const auto step = index / 8 + 1;
    return small_text(step == 4 || step == 6 ? 3 : 2)->at(index);
  });
  odd.compare({.recordings = 1, .launches = 4});
}

TEST_CASE("steps may skip the update, parameters change between them") {
  graph_run changed({.ranks = 2});
  changed.skip = 3;
  changed.before = [](trainer& run, std::int64_t step) {
    if (step == 4)
      run.load(copies_of(run.parameters()), "itself");
    if (step == 5)
      run.set_position(0);
    return 0.0;
  };
  changed.compare({.recordings = 1, .launches = 4});
}

TEST_CASE("steps that monitors look into run op by op") {
  for (const int kind : {0, 1, 2}) {
    graph_run watched({.ranks = 2, .data_parallel = 2, .clip = 0.5});
    watched.steps = 8;
    watched.watcher.name = "watcher";
    watched.watcher.wants.ops = kind == 0;
    watched.watcher.wants.messages = kind == 1;
    watched.watcher.wants.tensors =
      kind == 2 ? tensor_kind::gradient | tensor_kind::activation
                : tensor_kind::none;
    watched.watcher.wants.every = 3;  // steps 3 and 6
    INFO("kind " << kind);
    const auto events = watched.compare({.recordings = 1, .launches = 5});
    for (std::int64_t step = 1; step <= 8; ++step) {
      const bool looked_into = step % 3 == 0;
      CHECK(events.others.contains(step) == looked_into);
      CHECK(events.steps.contains(step) == looked_into);
    }
  }
}

TEST_CASE("steps that are watched are launched, and run again after a hit") {
  for (const bool hits : {false, true}) {
    small_case what{.ranks = 2, .clip = 0.5};
    what.hits = hits;
    graph_run watched(what);
    watched.watcher.name = "watcher";
    watched.watcher.wants = {
      .memory = true, .tensors = tensor_kind::loss, .watches = true};
    const auto events = watched.compare({.recordings = 1, .launches = 4});
    const auto tensors = what.microbatches;
    for (std::int64_t step = 1; step <= 5; ++step) {
      CAPTURE(step, hits);
      REQUIRE(events.steps.at(step).size() == 1);
      CHECK(events.steps.at(step)[0].tokens
            == what.microbatches * 2 * small_gpt().length);
      CHECK(events.others.at(step)
            == what.ranks + (hits || step == 1 ? tensors : 0));
    }
  }
}

TEST_CASE("each step is reported once, with everything known about it") {
  graph_run watched({.ranks = 2, .data_parallel = 2, .clip = 0.5});
  watched.watcher.name = "steps";
  watched.watcher.wants.memory = true;
  const auto events = watched.compare({.recordings = 1, .launches = 4});
  REQUIRE(events.steps.size() == 5);
  for (const auto& [number, steps] : events.steps) {
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].losses.size() == 1);
    CHECK(steps[0].gradient_norm > 0);
    CHECK(steps[0].tokens == 2 * 4 * 2 * small_gpt().length);
    CHECK(steps[0].updated);
    CHECK(steps[0].begin < steps[0].end);
    CHECK(events.others.at(number) == 4);  // the memory of each rank
  }
}

TEST_CASE("what can't be recorded runs op by op, and is warned of once") {
  graph_run looks({.ranks = 2, .data_parallel = 2, .clip = 0.5});
  looks.options.numerics.loss = [inner = looks.options.numerics.loss](
                                  const tensor_list& outputs,
                                  const microbatch_data& data) {
    auto terms = inner(outputs, data);
    if (at::GradMode::is_enabled() && active_watch())
      terms[0].value.item<double>();
    return terms;
  };
  looks.may_race = true;  // the host reads what a stream computes
  looks.compare({.recordings = 1, .launches = 0});
  CHECK_THAT(looks.logged(), ContainsSubstring("1F0: ")
                               && ContainsSubstring("wait for a value")
                               && ContainsSubstring("op by op from here on"));
}

TEST_CASE("wherever a recording fails, the step is as if there were none") {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved_1f1b"})
    for (const int fails_at : {0, 1, 3, 5, 7}) {
      const auto stages = schedule == "interleaved_1f1b" ? 2 : 1;
      graph_run failing({.schedule = schedule,
                         .stages_per_rank = stages,
                         .data_parallel = 2,
                         .clip = 0.5});
      failing.fail_recorded_forward(fails_at);
      INFO(schedule << " fails at loss " << fails_at);
      failing.compare({.recordings = 1, .launches = 0});
    }
}

TEST_CASE("metrics that the host computes can't be recorded") {
  graph_run reports({.ranks = 2});
  reports.options.numerics.loss = [inner = reports.options.numerics.loss](
                                    const tensor_list& outputs,
                                    const microbatch_data& data) {
    if (auto* to = current_observer())
      to->metric("rows", static_cast<double>(outputs[0].size(0)), 1);
    return inner(outputs, data);
  };
  reports.compare({.recordings = 1, .launches = 0});
  CHECK_THAT(reports.logged(), ContainsSubstring("'rows'"));
}

TEST_CASE("random numbers that the host draws can't be recorded") {
  graph_run draws({.ranks = 2});
  draws.options.numerics.loss = [inner = draws.options.numerics.loss](
                                  const tensor_list& outputs,
                                  const microbatch_data& data) {
    auto terms = inner(outputs, data);
    if (current_draws())  // in training
      terms[0].value = terms[0].value * at::rand({}, op_generator());
    return terms;
  };
  draws.compare({.recordings = 1, .launches = 0});
  CHECK_THAT(draws.logged(), ContainsSubstring("op_generator"));
}

TEST_CASE("a failure of the step itself is reported as usual") {
  const auto failing = [](bool graphs) {
    const auto device = std::make_shared<faked_accelerator>();
    auto options = options_for({.ranks = 2});
    options.devices = {device};
    options.cuda_graphs = graphs;
    int losses = 0;
    options.numerics.loss = [&losses, inner = options.numerics.loss](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      if (++losses > 4)
        throw std::runtime_error("a bad loss");
      return inner(outputs, data);
    };
    trainer training(model_for({.ranks = 2}), options);
    training.step(small_text());
    training.step(small_text());
  };
  for (const bool graphs : {false, true})
    CHECK_THROWS_MATCHES(failing(graphs), error,
                         MessageMatches(ContainsSubstring(
                           "step 2, rank 1, op 1F0 (stage 1, microbatch 0, "
                           "replica 0): a bad loss")));
}

TEST_CASE("launched steps have their microbatches made once, ahead") {
  std::mutex mutex;
  std::map<std::int64_t, int> loads;
  const auto source = make_source([&](std::int64_t index) {
    const std::scoped_lock lock(mutex);
    ++loads[index];
    return small_text()->at(index);
  });
  const auto device = std::make_shared<faked_accelerator>();
  auto options = options_for({.ranks = 2});
  options.devices = {device};
  options.cuda_graphs = true;
  trainer training(model_for({.ranks = 2}), options);
  for (int i = 0; i < 4; ++i)
    training.step(source);
  CHECK(device->launches() == 3);
  CHECK(loads.size() == 20);  // one step ahead
  for (std::int64_t index = 8; index < 20; ++index)
    CHECK(loads[index] == 1);
}

TEST_CASE("data that end, or fail, do so as without graphs") {
  const auto ending = [](source_pointer source, bool graphs) {
    const auto device = std::make_shared<faked_accelerator>();
    auto options = options_for({.ranks = 2});
    options.devices = {device};
    options.cuda_graphs = graphs;
    trainer training(model_for({.ranks = 2}), options);
    for (int i = 0; i < 3; ++i)
      training.step(source);
    CHECK(device->launches() == (graphs ? 2 : 0));
    training.step(source);
  };
  const auto broken = make_source([](std::int64_t index) {
    if (index >= 13)
      throw std::runtime_error("a hole in the data");
    return small_text()->at(index);
  });
  const auto short_one =
    make_source([](std::int64_t index) { return small_text()->at(index); }, 13);
  for (const bool graphs : {false, true}) {
    CHECK_THROWS_MATCHES(
      ending(broken, graphs), error,
      MessageMatches(ContainsSubstring("step 4, op load")
                     && ContainsSubstring("a hole in the data")));
    CHECK_THROWS_MATCHES(
      ending(short_one, graphs), error,
      MessageMatches(ContainsSubstring("the data source has 13")));
  }
}

TEST_CASE("an interrupt while a step is recorded ends the run") {
  const auto device = std::make_shared<faked_accelerator>();
  auto options = options_for({.ranks = 2});
  options.devices = {device};
  options.cuda_graphs = true;
  trainer* running = nullptr;
  int losses = 0;
  options.numerics.loss = [&, inner = options.numerics.loss](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    if (++losses == 6)
      running->interrupt("enough");
    return inner(outputs, data);
  };
  trainer training(model_for({.ranks = 2}), options);
  running = &training;
  training.step(small_text());
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_MATCHES(
      [&] {
        for (int more = 0; more < 100; ++more)
          training.step(small_text());
      }(),
      error, MessageMatches(ContainsSubstring("enough")));
}

TEST_CASE("what graphs can't do yet is refused, with what to do") {
  const auto refused = [](trainer_options options) -> std::string {
    options.cuda_graphs = true;
    try {
      const trainer run(model_for({.ranks = 2}), std::move(options));
    } catch (const error& reason) {
      expect(reason.code() == error_code::invalid_argument, "it is bad input");
      return reason.what();
    }
    return {};
  };
  auto options = options_for({.ranks = 2});
  CHECK_THAT(refused(options), ContainsSubstring("--device cuda:0")
                                 && ContainsSubstring("turn cuda_graphs off"));
  options.devices = {std::make_shared<faked_accelerator>(),
                     std::make_shared<faked_accelerator>()};
  CHECK_THAT(refused(options), ContainsSubstring("of one device, and the run "
                                                 "has 2"));
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto in_job = options_for({.ranks = 2});
    in_job.devices = {std::make_shared<faked_accelerator>()};
    in_job.job = job;
    throw std::runtime_error(refused(in_job));
  });
  for (const auto& reason : errors)
    CHECK_THAT(reason, ContainsSubstring("one process, and the job has 2"));
}
