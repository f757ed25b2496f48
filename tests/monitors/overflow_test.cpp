#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/engine/stage/stage_module.hpp"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "overflow_run.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

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

TEST_CASE("frames are those of each replica's first forwards and backwards") {
  const bool recompute = GENERATE(false, true);
  const auto data_parallel = GENERATE(1, 2);
  overflow_run seen;
  auto options = options_g(2, 1, data_parallel);
  options.numerics.recompute = recompute;
  trainer run(model_g(), options);
  run.attach(seen.watch({.trace = {1}}));
  run.evaluate(source_g(data_parallel), data_parallel);
  run.step(source_g(data_parallel), true);
  run.evaluate(source_g(data_parallel), data_parallel);
  run.step(source_g(data_parallel), true);
  seen.finish(run);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (std::size_t at = 0;
         (at = seen.printed.find(text, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  CAPTURE(recompute, data_parallel, seen.printed);
  CHECK(count("*** Starting batch number=1 ***") == 1);
  CHECK(count("*** Finished batch number=1 ***") == 1);
  CHECK(count("batch number=") == 2);
  CHECK(count(" fc small_linear (") == 2 * data_parallel);
  CHECK(count(" head small_linear (") == 2 * data_parallel);
  CHECK(count("forward)") == count("backward)") + data_parallel);  // the loss
  CHECK(count("replica 1, rank 1, stage 1, microbatch 0, forward)")
        == (data_parallel == 2 ? 2 : 0));
}

namespace {

/// One module under two names, called once.
struct shared_child : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * 2; }
};
struct sharing_layer final : stage_module {
  sharing_layer() {
    child = register_module("a", std::make_shared<shared_child>());
    register_module("b", child);
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {observe(child, inputs.at(0))};
  }
  std::shared_ptr<shared_child> child;
};

}  // namespace

TEST_CASE("a shared module is seen once") {
  overflow_run seen;
  auto layers = model_g();
  layers.insert(layers.begin() + 1,
                {"between", [] { return std::make_shared<sharing_layer>(); }});
  trainer run(layers, options_g(1, 1));
  run.attach(seen.watch({.trace = {0}}));
  run.step(source_g(1));
  seen.finish(run);
  const auto forward =
    seen.printed.find(" shared_child (rank 0, stage 0, microbatch 0, forward)");
  REQUIRE(forward != std::string::npos);
  CHECK(seen.printed.find(" shared_child (rank 0, stage 0, microbatch 0, f",
                          forward + 1)
        == std::string::npos);
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
    for (int step = 0; step < 1000; ++step) {
      run.step(source_g(1));
      run.evaluate(source_g(1), 1);
    }
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
  options.numerics.loss_scale = {scale, true};
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
               && ContainsSubstring("the loss scale halved"));
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
