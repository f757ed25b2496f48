// The overflow monitor where it watches: it says what it says where it reads
// all.
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/tensors/gap.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "overflow_run.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto watch = overflow_reading::watch;
constexpr auto full = overflow_reading::full;

trainer_options held(std::int32_t ranks = 2) {
  auto options = options_g(ranks, 1);
  options.execution.holds_updates = true;
  return options;
}

/// The model with a layer between its own.
model model_with(const std::function<std::shared_ptr<stage_module>()>& make) {
  auto layers = model_g();
  layers.insert(layers.begin() + 1, {"between", make});
  return layers;
}

/// Gradients that pass it overflow in between, at a large loss scale.
struct steep_layer final : stage_module {
  steep_layer() { weight = register_parameter("weight", at::full({2}, 1.0)); }
  tensor_list forward(const tensor_list& inputs) override {
    auto y = inputs.at(0) * weight;
    if (y.requires_grad())
      y.register_hook(
        [](const at::Tensor& gradient) { return gradient * 1e37 * 1e-37; });
    return {y};
  }
  at::Tensor weight;
};

/// Makes infinities of large values.
struct spiking_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    const auto& x = inputs.at(0);
    return {at::where(x.abs() < 1e5, x, at::full({}, INFINITY))};
  }
};

/// Replaces what is not finite.
struct cleaning_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    const auto& x = inputs.at(0);
    return {at::where(x.isfinite(), x, at::full({}, 1.0))};
  }
};

/// Counts its forwards in a buffer.
struct counting_layer final : stage_module {
  counting_layer() { calls = register_buffer("calls", at::full({}, 0.0)); }
  tensor_list forward(const tensor_list& inputs) override {
    calls.add_(1);
    return {inputs.at(0) * 1.0};
  }
  at::Tensor calls;
};

/// Its n-th forward is not finite, whatever the step.
struct fickle_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs.at(0) * (++calls == 3 ? INFINITY : 1.0)};
  }
  int calls = 0;
};

struct outcome {
  overflow_run said;
  std::string error;
  std::vector<double> scales;
  parameter_list parameters;
};

/// Runs steps; none: without the monitor.
outcome after(int steps, const model& layers, const trainer_options& options,
              const source_pointer& source,
              std::optional<overflow_options> watcher, bool skip = false) {
  outcome result;
  trainer run(layers, options);
  if (watcher)
    run.attach(result.said.watch(*watcher));
  try {
    for (int i = 0; i < steps; ++i) {
      run.step(source, skip);
      result.scales.push_back(run.loss_scale());
    }
  } catch (const error& reason) {
    result.error = reason.what();
  }
  result.said.finish(run);
  result.parameters = run.parameters();
  return result;
}

std::vector<std::string> texts_of(const std::vector<alert>& alerts) {
  std::vector<std::string> texts;
  for (const auto& each : alerts)
    texts.push_back(each.text);
  return texts;
}

void check_equal(const parameter_list& a, const parameter_list& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(a[i].second.equal(b[i].second));
}

}  // namespace

TEST_CASE("only the first step and those with a hit are read when watching") {
  const auto found =
    after(4, model_g(), held(), rows_with(3, INFINITY), overflow_options{});
  using enum step_reading;
  CHECK((found.said.readings == step_readings{{1, once}, {4, again}}));
  CHECK_THAT(found.said.error_text, ContainsSubstring("input[0] of fc"));
}

TEST_CASE("frames of a step with a hit are those of full reading") {
  const auto found = [](overflow_reading reading) {
    return after(4, model_g(), held(), rows_with(3, NAN),
                 overflow_options{.reading = reading})
      .said;
  };
  const auto watched = found(watch), read = found(full);
  CHECK(frames_of_batch(watched.printed, 3)
        == frames_of_batch(read.printed, 3));
  CHECK(watched.error_text == read.error_text);
  // Batch 2 was not read.
  CHECK_THAT(watched.printed, !ContainsSubstring("batch number=2"));
  CHECK_THAT(read.printed, ContainsSubstring("Finished batch number=2"));
}

TEST_CASE(
  "overflows that a loss scale handles are told of alike, and cost no bit") {
  auto options = held();
  options.numerics.loss_scale = {1024, true};
  const auto layers =
    model_with([] { return std::make_shared<steep_layer>(); });
  const auto run = [&](std::optional<overflow_options> watcher) {
    return after(6, layers, options, source_g(1), std::move(watcher));
  };
  const auto alone = run({});
  const auto watched = run(overflow_options{.reading = watch});
  const auto read = run(overflow_options{.reading = full});
  REQUIRE(alone.scales.front() == 512);
  REQUIRE(alone.scales.back() < 512);
  CHECK(texts_of(watched.said.alerts) == texts_of(read.said.alerts));
  CHECK(watched.said.alerts.size() >= 2);
  CHECK(watched.said.error_text.empty());
  for (const auto* each : {&watched, &read}) {
    CHECK(each->scales == alone.scales);
    check_equal(each->parameters, alone.parameters);
  }
}

TEST_CASE("a run that halts on a NaN loss names its tensor before") {
  const auto reading = GENERATE(watch, full);
  auto options = held();
  options.numerics.halt_on_nan = true;
  const auto found = after(3, model_g(), options, rows_with(2, NAN),
                           overflow_options{.reading = reading});
  CHECK_THAT(found.error, ContainsSubstring("the loss 'loss' is nan"));
  CHECK_THAT(found.said.printed,
             ContainsSubstring("Detected inf/nan during batch_number=2")
               && ContainsSubstring("nan      nan input[0]"));
}

namespace {

/// Runs three steps of a model of which the second layer makes an infinity in
/// the last step, and the third one replaces it.
overflow_run with_infinity_in_between(std::int32_t ranks,
                                      overflow_reading reading) {
  auto layers = model_with([] { return std::make_shared<cleaning_layer>(); });
  layers.insert(layers.begin() + 1,
                {"spike", [] { return std::make_shared<spiking_layer>(); }});
  auto options = held(ranks);
  if (ranks == 2)
    options.split = {{0, 2}, {2, 4}};
  return after(3, layers, options, rows_with(2, 1e6),
               overflow_options{.reading = reading}, true)
    .said;
}

}  // namespace

TEST_CASE("what nothing follows from is found by full reading alone") {
  CHECK_THAT(with_infinity_in_between(1, full).error_text,
             ContainsSubstring("output of spike"));
  const auto watched = with_infinity_in_between(1, watch);
  CHECK(watched.alerts.empty());
  CHECK(watched.error_text.empty());
}

TEST_CASE("what leaves a stage is a hit, even if the next stage replaces it") {
  const auto reading = GENERATE(watch, full);
  CHECK_THAT(with_infinity_in_between(2, reading).error_text,
             ContainsSubstring("output of spike"));
}

TEST_CASE("a layer that differs in the second run is told of") {
  const auto layers =
    model_with([] { return std::make_shared<fickle_layer>(); });
  const auto found = after(4, layers, held(), source_g(1), overflow_options{});
  REQUIRE(found.said.alerts.size() == 1);
  CHECK_THAT(found.said.alerts[0].text,
             ContainsSubstring("step 3: something was not finite")
               && ContainsSubstring("reading=full"));
  CHECK(found.said.error_text.empty());
}

TEST_CASE("all steps are read where watching would change or miss something") {
  const auto readings = [](const model& layers, const trainer_options& options,
                           const overflow_options& watcher) {
    return after(3, layers, options, source_g(1), watcher).said.readings;
  };
  using enum step_reading;
  const step_readings all{{1, once}, {2, once}, {3, once}};
  CHECK((readings(model_g(), held(), {.reading = full}) == all));
  CHECK((readings(model_g(), held(), {.trace = {7}}) == all));
  CHECK((readings(model_g(), held(), {.underflow_share = 0.5}) == all));
  CHECK((readings(model_g(), options_g(2, 1), {}) == all));
  CHECK((readings(model_with([] { return std::make_shared<counting_layer>(); }),
                  held(), {})
         == all));
  CHECK(readings(model_g(), held(), {}).size() == 1);
}

TEST_CASE("watching is refused together with what needs healthy steps") {
  for (auto options :
       {overflow_options{.reading = watch, .trace = {1}},
        overflow_options{.reading = watch, .underflow_share = .1}})
    CHECK_THROWS_AS(overflow_monitor(options, callback_sink({})), error);
}

TEST_CASE("outputs of other monitors have a step that ran twice once") {
  constexpr std::int64_t steps = 4;
  const temporary_folder folder;
  int records = 0, gap_records = 0;
  const auto count = [](int& target) {
    return callback_sink([&target](const metrics_record&) { ++target; });
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> progress(
    std::fopen((folder / "progress").c_str(), "w"), &std::fclose);
  overflow_run output;
  trainer run(model_g(), held());
  run.attach(output.watch({.stop = false}));
  run.attach(metrics_monitor(folder / "log"));
  run.attach(step_metrics_monitor(count(records)));
  run.attach(progress_monitor({.steps = steps, .out = progress.get()}));
  run.attach(gap_monitor({}, count(gap_records)));
  for (std::int64_t i = 0; i < steps; ++i)
    run.step(rows_with(2, NAN), true);
  run.finish_monitors();
  CHECK((output.readings.at(3) == step_reading::again));
  CHECK(output.alerts.size() == 1);
  CHECK(records == steps);
  CHECK(gap_records == steps);
  std::fflush(progress.get());
  for (const auto* file : {"log", "progress"})
    CHECK(std::ranges::count(content(folder / file), '\n') == steps);
}
