#include "troupe/monitors/overflow.hpp"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <mutex>
#include <random>

#include "fixture_g.hpp"
#include "troupe/schedules/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

struct overflow_run {
  std::string printed;
  std::vector<alert> alerts;
  std::string error_text;

  monitor watch(overflow_options options = {}) {
    options.print = [this](const std::string& text) { printed += text; };
    return overflow_monitor(options, callback_sink({}, [this](const alert& a) {
                              alerts.push_back(a);
                            }));
  }
  void finish(trainer& run) {
    try {
      run.finish_monitors();
    } catch (const error& reason) {
      error_text = reason.what();
    }
  }
};

source_pointer rows_with(std::int64_t batch, float value) {
  return make_source([=](std::int64_t k) {
    auto rows = rows_g();
    if (k == batch)
      rows[2][1] = value;
    return microbatch_data{{rows}, {}, {}, 4};
  });
}

const std::string seventeen(17, ' ');

}  // namespace

TEST_CASE("a traced batch prints the frames of the original") {
  overflow_run seen;
  trainer run(model_g(), options_g(1, 1));
  run.attach(seen.watch({.trace = {0}}));
  run.step(make_source([](std::int64_t) {
    return microbatch_data{{matrix({2, 4}, 2)}, {}, {}, 1};
  }));
  run.step(source_g(1));
  seen.finish(run);
  const auto expected = "\n\n" + seventeen
                        + " *** Starting batch number=0 ***\n"
                          "abs min  abs max  metadata\n"
                        + seventeen
                        + " fc small_linear (rank 0, stage 0, microbatch 0, "
                          "forward)\n"
                          "5.00e-01 4.00e+00 weight\n"
                          "0.00e+00 1.00e+00 bias\n"
                          "2.00e+00 4.00e+00 input[0]\n"
                          "6.00e+00 1.60e+01 output\n";
  CHECK_THAT(seen.printed, Catch::Matchers::StartsWith(expected));
  CHECK_THAT(seen.printed,
             ContainsSubstring(seventeen + " *** Finished batch number=0 ***"));
  CHECK_THAT(seen.printed, !ContainsSubstring("batch number=1"));
  CHECK(seen.error_text.empty());
}

TEST_CASE("the first bad tensor ends the run, with the frames before it") {
  overflow_run seen;
  trainer run(model_g(), options_g(2, 1));
  run.attach(seen.watch({.frames = 5}));
  run.step(rows_with(1, INFINITY));
  try {
    for (int step = 0; step < 50; ++step)
      run.step(rows_with(1, INFINITY));
    FAIL("the run went on");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("input[0] of fc"));
  }
  seen.finish(run);
  CHECK(seen.error_text.empty());
  CHECK_THAT(seen.printed,
             ContainsSubstring("input[0] has infs")
               && ContainsSubstring("Detected inf/nan during batch_number=1")
               && ContainsSubstring("Last 5 forward frames:")
               && ContainsSubstring("inf input[0]"));
  REQUIRE(seen.alerts.size() == 1);
  CHECK(seen.alerts[0].source.step == 2);
}

TEST_CASE("the last 21 frames are shown, of as many batches as that takes") {
  overflow_run seen;
  trainer run(model_g(), options_g(2, 1));
  run.attach(seen.watch());
  for (int step = 0; step < 6; ++step)
    run.step(rows_with(5, NAN), true);
  seen.finish(run);
  CHECK_THAT(seen.printed, ContainsSubstring("batch_number=5")
                             && ContainsSubstring("Last 21 forward frames:"));
  std::size_t frames = 0;
  for (std::size_t at = 0; (at = seen.printed.find(" (rank ", at)) + 1 != 0;
       ++at)
    ++frames;
  CHECK(frames == 21);
  CHECK_THAT(seen.printed, ContainsSubstring(
                             "*** Finished batch number=4 ***\n\n\n" + seventeen
                             + " *** Starting batch number=5 ***\n"
                               "abs min  abs max  metadata\n"
                             + seventeen + " fc small_linear"));
  CHECK_THAT(seen.printed, !ContainsSubstring("number=0"));
}

TEST_CASE("a bad tensor in the last step is an error at the end") {
  overflow_run seen;
  trainer run(model_g(), options_g(2, 1));
  run.attach(seen.watch());
  run.step(rows_with(0, NAN));
  seen.finish(run);
  CHECK_THAT(seen.error_text, ContainsSubstring("input[0] of fc"));
}

TEST_CASE("a bad tensor in a traced batch stops neither it nor the next") {
  overflow_run seen;
  trainer run(model_g(), options_g(1, 1));
  run.attach(seen.watch({.trace = {0}}));
  // Without an update the NaN does not live on in the parameters.
  run.step(rows_with(0, NAN), true);
  for (int step = 0; step < 3; ++step)
    run.step(rows_with(0, NAN), true);
  seen.finish(run);
  CHECK(seen.error_text.empty());
  CHECK_THAT(seen.printed, ContainsSubstring("nan      nan input[0]"));
  CHECK_THAT(seen.printed, !ContainsSubstring("Detected"));
}

TEST_CASE("the run is stopped after the batch asked for") {
  overflow_run seen;
  trainer run(model_g(), options_g(1, 1));
  run.attach(seen.watch({.abort_after = 2}));
  try {
    for (int step = 0; step < 1000; ++step)
      run.step(source_g(1));
    FAIL("the run went on");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("aborting after batch 2"));
  }
}

TEST_CASE("values that fp16 would lose raise an alert, if asked for") {
  overflow_run seen;
  trainer run(model_g(), options_g(1, 1));
  run.attach(seen.watch({.underflow_share = 0.1}));
  run.step(rows_with(0, 1e-9F));
  seen.finish(run);
  REQUIRE_FALSE(seen.alerts.empty());
  CHECK_THAT(seen.alerts[0].text, ContainsSubstring("zero in fp16"));
}

namespace {

/// Passes its input on; what comes back of the first `bad` backwards is not
/// finite.
struct bad_backward final : stage_module {
  explicit bad_backward(int count) : bad(count) {
    weight = register_parameter("weight", at::full({2}, 1.0));
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto y = inputs.at(0) * weight;
    if (y.requires_grad() && bad-- > 0)
      y.register_hook(
        [](const at::Tensor& gradient) { return gradient + INFINITY; });
    return {y};
  }
  int bad;
  at::Tensor weight;
};

trainer run_with_bad_backwards(int count, double scale) {
  auto layers = model_g();
  layers.insert(
    layers.begin() + 1,
    {"between", [count] { return std::make_shared<bad_backward>(count); }});
  auto options = options_g(1, 1);
  options.loss_scale = {scale, true};
  return {layers, options};
}

}  // namespace

TEST_CASE("gradients that a dynamic loss scale takes care of are told of") {
  overflow_run seen;
  auto run = run_with_bad_backwards(2, 1024);
  run.attach(seen.watch());
  for (int step = 0; step < 4; ++step)
    run.step(source_g(1));
  seen.finish(run);
  CHECK(seen.error_text.empty());
  CHECK(seen.printed.empty());
  REQUIRE(seen.alerts.size() == 2);
  CHECK(seen.alerts[1].source.step == 2);
  CHECK_THAT(seen.alerts[0].text,
             ContainsSubstring("gradient of output of between")
               && ContainsSubstring("the loss scale halves"));
}

TEST_CASE("a scale that has come down to one takes the blame no longer") {
  overflow_run seen;
  auto run = run_with_bad_backwards(100, 2);
  run.attach(seen.watch());
  run.step(source_g(1));
  run.step(source_g(1));
  seen.finish(run);
  CHECK(seen.alerts.size() == 2);
  CHECK_THAT(seen.error_text,
             ContainsSubstring("step 2: ")
               && ContainsSubstring("gradient of output of between"));
}

TEST_CASE("a loss scale is not to blame for a bad forward") {
  overflow_run seen;
  auto run = run_with_bad_backwards(0, 1024);
  run.attach(seen.watch());
  run.step(rows_with(0, NAN));
  seen.finish(run);
  CHECK_THAT(seen.error_text, ContainsSubstring("input[0] of fc"));
}

TEST_CASE("overflow options that can't be meant are refused") {
  CHECK_THROWS_AS(overflow_monitor({.frames = 0}, callback_sink({})), error);
  CHECK_THROWS_AS(overflow_monitor({.abort_after = -5}, callback_sink({})),
                  error);
  CHECK_THROWS_AS(overflow_monitor({.underflow_share = 2}, callback_sink({})),
                  error);
}

namespace {

/// Where a value that is not finite is put in.
struct injection {
  std::int32_t layer, microbatch;
  bool backward;
  double value;

  /// Its place in causal order.
  auto order() const {
    return std::tuple(microbatch, backward, backward ? -layer : layer);
  }
};

/// y = x w, elementwise, and the injections of its layer: forward calls come
/// in microbatch order, and so do backwards.
struct injected_layer final : stage_module {
  injected_layer(std::int32_t number, std::vector<injection> all)
    : layer(number), injections(std::move(all)) {
    weight = register_parameter("weight", at::full({4}, 1.5));
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto y = inputs.at(0) * weight;
    const auto microbatch = calls++;
    for (const auto& what : injections) {
      if (what.layer != layer || what.microbatch != microbatch)
        continue;
      if (what.backward)
        y.register_hook([value = what.value](const at::Tensor& gradient) {
          return gradient + value;
        });
      else
        y = y + what.value;
    }
    return {y};
  }
  std::int32_t layer;
  std::vector<injection> injections;
  std::int32_t calls = 0;
  at::Tensor weight;
};

struct trial {
  std::string schedule;
  schedule_shape sizes;
  std::vector<injection> injections;
  std::int32_t bad_data = -1;  // a microbatch
};

trial random_trial(std::mt19937& random) {
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
  };
  const std::vector<std::string> names{"gpipe", "1f1b", "eager_1f1b",
                                       "interleaved_1f1b", "breadth_first"};
  trial made;
  made.schedule = names[static_cast<std::size_t>(below(5))];
  const bool interleaved =
    made.schedule == "interleaved_1f1b" || made.schedule == "breadth_first";
  made.sizes.ranks = 1 + below(3);
  made.sizes.stages_per_rank = interleaved ? 2 : 1;
  made.sizes.microbatches = made.sizes.ranks * (1 + below(3));
  const auto stages = made.sizes.ranks * made.sizes.stages_per_rank;
  for (int i = 0; i <= below(3); ++i)
    made.injections.push_back({below(stages), below(made.sizes.microbatches),
                               below(2) == 1, below(2) == 1 ? NAN : INFINITY});
  if (below(8) == 0)
    made.bad_data = below(made.sizes.microbatches);
  return made;
}

/// How the report must begin.
std::string expected(const trial& what) {
  const auto first = *std::ranges::min_element(
    what.injections, {}, [](const injection& i) { return i.order(); });
  const bool data_first = what.bad_data >= 0
                          && (what.bad_data < first.microbatch
                              || (what.bad_data == first.microbatch));
  if (data_first)
    return fmt::format(
      "input[0] of layers.0 (input), rank 0, stage 0, "
      "microbatch {}, forward",
      what.bad_data);
  const auto rank = first.layer % what.sizes.ranks;
  return fmt::format(
    "{} of layers.{} ({}), rank {}, stage {}, microbatch {}, {}",
    first.backward ? "gradient of output" : "output", first.layer,
    first.backward ? "activation gradient" : "activation", rank, first.layer,
    first.microbatch, first.backward ? "backward" : "forward");
}

std::string reported(const trial& what, bool recompute) {
  model layers;
  const auto stages = what.sizes.ranks * what.sizes.stages_per_rank;
  for (std::int32_t s = 0; s < stages; ++s)
    layers.push_back(
      {fmt::format("layers.{}", s),
       [=] { return std::make_shared<injected_layer>(s, what.injections); }});
  trainer_options options;
  options.schedule = make_schedule(what.schedule, what.sizes);
  options.loss = options_g(1, 1).loss;
  options.recompute = recompute;
  overflow_run seen;
  trainer run(layers, options);
  run.attach(seen.watch());
  run.step(make_source([bad = what.bad_data](std::int64_t k) {
    auto rows = at::full({2, 4}, 1.0F);
    if (k == bad)
      rows[1][2] = NAN;
    return microbatch_data{{rows}, {}, {}, 2};
  }));
  seen.finish(run);
  return seen.error_text;
}

}  // namespace

TEST_CASE("the first bad tensor is named for 200 random injections") {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const auto what = random_trial(random);
    CAPTURE(i, what.schedule, what.sizes.ranks, what.sizes.microbatches,
            what.injections.size(), what.bad_data);
    CHECK_THAT(reported(what, false),
               ContainsSubstring("not finite is " + expected(what) + ":"));
  }
}
