// What a C++ program around a trainer uses.
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "../actors/captured_log.hpp"
#include "../engine/transport/joined_meshes.hpp"
#include "../no_threads.hpp"
#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/stage/as_layer.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/training/checkpoints.hpp"
#include "troupe/training/run_monitors.hpp"
#include "troupe/training/stop_on_signals.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe;
using namespace troupe::testing;

namespace {

model three_layers() {
  return {as_layer("up", [] { return torch::nn::Linear(4, 8); }),
          as_layer("middle",
                   [] {
                     return torch::nn::Sequential(torch::nn::Linear(8, 8),
                                                  torch::nn::Tanh());
                   }),
          as_layer("down", [] { return torch::nn::Linear(8, 4); })};
}

trainer_options small_options(std::int32_t ranks = 2) {
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = ranks, .microbatches = 4});
  options.numerics.optimizer = adamw{.learning_rate = 0.01};
  options.numerics.loss =
    mean_loss("mse", [](const auto& output, const auto& target) {
      return at::mse_loss(output, target);
    });
  return options;
}

trainer small_run(const model& layers = three_layers(),
                  std::int32_t ranks = 2) {
  return {layers, small_options(ranks)};
}

source_pointer numbers() {
  return make_source([](std::int64_t index) {
    const auto x = at::rand({2, 4}, generator_at(1, index));
    return microbatch_data{{x}, {x.square()}, {}, 2};
  });
}

double last_loss(trainer& run, std::int64_t steps) {
  double loss = 0;
  for (const auto& step : run.train(numbers(), steps))
    loss = step.losses.at(0).value;
  return loss;
}

void check_same_bits(const trainer& a, const trainer& b) {
  const auto all = a.gather_parameters(), others = b.gather_parameters();
  REQUIRE(all.size() == others.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].first == others[i].first);
    CHECK(all[i].second.equal(others[i].second));
  }
}

}  // namespace

TEST_CASE("any module is a layer: its names, and the same bits at each call") {
  auto run = small_run();
  std::vector<std::string> names;
  for (const auto& [name, value] : run.gather_parameters())
    names.push_back(name);
  CHECK(names
        == std::vector<std::string>{"up.weight", "up.bias", "middle.0.weight",
                                    "middle.0.bias", "down.weight",
                                    "down.bias"});
  auto other = small_run(three_layers(), 1);
  check_same_bits(run, other);
  const auto first = last_loss(run, 1);
  CHECK(last_loss(run, 30) < 0.5 * first);
  last_loss(other, 31);
  check_same_bits(run, other);
}

TEST_CASE("a module that takes other tensors than it is given is named") {
  auto layers = three_layers();
  layers[2].reads = {{"up"}, {"up"}, {"up"}, {"up"}};
  CHECK_THROWS_MATCHES(
    last_loss(*std::make_unique<trainer>(small_run(layers)), 1), error,
    says("has no forward for 4 tensors"));
}

TEST_CASE("a loss of one line needs an output and a target") {
  auto run = small_run();
  const auto without = make_source([](std::int64_t index) {
    return microbatch_data{
      {at::rand({2, 4}, generator_at(1, index))}, {}, {}, 2};
  });
  CHECK_THROWS_MATCHES(run.step(without), error,
                       says("the loss 'mse' needs an output and a target"));
}

TEST_CASE("monitors and their outputs are attached by their specs") {
  const temporary_folder at;
  const auto csv = at / "m.csv", lines = at / "steps.jsonl";
  {
    auto run = small_run();
    attach_monitors(run, {.monitors = {"gap:every=2"},
                          .sinks = {"csv:" + csv},
                          .metrics = lines,
                          .timeline = at / "step.svg"});
    last_loss(run, 4);
    run.finish_monitors();
  }
  const auto table = input_file(csv).read();
  CHECK_THAT(table, ContainsSubstring("gap/"));
  CHECK(std::ranges::count(input_file(lines).read(), '\n') == 4);
  CHECK_THAT(input_file(at / "step.svg").read(), ContainsSubstring("</svg>"));
}

TEST_CASE("in a job the process that leads attaches the monitors") {
  const temporary_folder at;
  const auto path_of = [&](const mesh& job) {
    return at / fmt::format("{}.csv", job.place().process);
  };
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = small_options();
    options.job = job;
    trainer run(three_layers(), options);
    attach_monitors(run, {.sinks = {"csv:" + path_of(*job)}});
    last_loss(run, 2);
    run.finish_monitors();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK_THAT(input_file(at / "0.csv").read(), ContainsSubstring("train/mse"));
  CHECK(!std::filesystem::exists(at / "1.csv"));
}

TEST_CASE("a monitor or a sink that can't be made is refused unopened") {
  const temporary_folder at;
  CHECK_THROWS_MATCHES(require_legal(monitoring_options{.monitors = {"gup"}}),
                       error, says("unknown monitor 'gup'"));
  CHECK_THROWS_MATCHES(
    require_legal(monitoring_options{.sinks = {"csv:" + at / "a/b.csv"}}),
    error, says("a/b.csv"));
  require_legal(monitoring_options{.sinks = {"csv:" + at / "a.csv"}});
  CHECK(!std::filesystem::exists(at / "a.csv"));
}

TEST_CASE("a run that is saved by one call goes on by another, bit for bit") {
  const temporary_folder at;
  auto run = small_run();
  CHECK(resume(run, at / "run") == 0);
  last_loss(run, 3);
  save(run, at / "run");
  last_loss(run, 2);
  for (const std::int32_t ranks : {1, 3}) {
    auto other = small_run(three_layers(), ranks);
    CHECK(resume(other, at / "run") == 3);
    CHECK(other.position() == 12);
    last_loss(other, 2);
    check_same_bits(run, other);
  }
  save(run, at / "run");
  CHECK(checkpoint_folder(at / "run").steps()
        == std::vector<std::int64_t>{5, 3});
  auto other = small_run();
  CHECK(resume(other, at / "run/step-00000003") == 3);
}

TEST_CASE("checkpoints are saved as a program asks, and resumed") {
  const temporary_folder at;
  const checkpoint_options options{
    .folder = at / "run", .every = 2, .keep_last = 2, .resume = "auto"};
  {
    auto run = small_run();
    run_checkpoints saved(run, options);
    CHECK(saved.steps_left(5) == 5);
    for (const auto& step : run.train(numbers(), 7)) {
      if (step.source.step == 5)
        run.request_save();
      saved.after_step();
    }
    saved.finish();
    CHECK_THAT(saved.summary(), ContainsSubstring("step 7 is saved in "));
    auto second = small_run();
    CHECK_THROWS_MATCHES(run_checkpoints(second, options), error,
                         says("in use"));
  }
  CHECK(checkpoint_folder(at / "run").steps()
        == std::vector<std::int64_t>{7, 6});
  auto run = small_run();
  const run_checkpoints saved(run, options);
  CHECK(saved.steps_left(10) == 3);
  CHECK(saved.steps_left(5) == 0);
}

TEST_CASE("messages about checkpoints name the options of a C++ program") {
  const temporary_folder at;
  auto run = small_run();
  last_loss(run, 1);
  save(run, at / "run");
  CHECK_THROWS_MATCHES(
    run_checkpoints(run, {.folder = at / "run"}), error,
    says("run holds a checkpoint of step 1; continue from it with resume auto, "
         "or give another folder"));
  trainer_options options = run.options();
  options.numerics.optimizer = sgd{};
  trainer other(three_layers(), options);
  CHECK_THROWS_MATCHES(
    resume(other, at / "run"), error,
    says("was saved with optimizer adamw, and this run has sgd"));
}

TEST_CASE("a signal ends the run after a step") {
  auto run = small_run();
  const stop_on_signals stopping(run);
  CHECK_THROWS_AS(stop_on_signals(run), error);
  std::int64_t steps = 0;
  for (const auto& step : run.train(numbers(), 100'000)) {
    steps = step.source.step;
    if (steps == 3)
      std::raise(SIGINT);
  }
  CHECK(steps >= 3);
  CHECK(steps < 100'000);
  REQUIRE(run.ended());
  CHECK_THAT(run.ended()->reason, ContainsSubstring("SIGINT after step "));
  CHECK(stopping.exit_code() == 130);
}

TEST_CASE("a stop_on_signals without a thread gives its place back") {
  auto run = small_run();
  {
    const no_threads scope;
    CHECK_THROWS_AS(stop_on_signals(run), error);
  }
  const stop_on_signals stopping(run);
  std::raise(SIGTERM);
  CHECK(stopping.exit_code() == 128 + SIGTERM);
}

TEST_CASE("signals' handlers of before return") {
  const auto before = std::signal(SIGTERM, SIG_IGN);
  {
    auto run = small_run();
    const stop_on_signals stopping(run);
    CHECK(stopping.exit_code() == 0);
  }
  CHECK(std::signal(SIGTERM, before) == SIG_IGN);
}

TEST_CASE("a run that a monitor stopped says so by its exception's type") {
  auto run = small_run();
  monitor watcher{.name = "judge"};
  watcher.see = [](const event&) { throw stop_training("too bad"); };
  run.attach(watcher);
  CHECK_THROWS_MATCHES(last_loss(run, 100'000), stopped_by_monitor,
                       says("too bad"));
}
