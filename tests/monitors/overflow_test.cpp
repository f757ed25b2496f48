#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
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

const std::string seventeen(17, ' ');

}  // namespace

TEST_CASE("a traced batch prints the frames of the original") {
  overflow_run output;
  trainer run(model_g(), options_g(1, 1));
  run.attach(output.watch({.trace = {0}}));
  run.step(make_source([](std::int64_t) {
    return microbatch_data{{matrix({2, 4}, 2)}, {}, {}, 1};
  }));
  run.step(source_g(1));
  output.finish(run);
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
  CHECK_THAT(output.printed, Catch::Matchers::StartsWith(expected));
  CHECK_THAT(output.printed,
             ContainsSubstring(seventeen + " *** Finished batch number=0 ***"));
  CHECK_THAT(output.printed, !ContainsSubstring("batch number=1"));
  CHECK(output.error_text.empty());
}

TEST_CASE("frames are those of each replica's first forwards and backwards") {
  const bool recompute = GENERATE(false, true);
  const auto data_parallel = GENERATE(1, 2);
  overflow_run output;
  auto options = options_g(2, 1, data_parallel);
  options.numerics.recompute = recompute;
  trainer run(model_g(), options);
  run.attach(output.watch({.trace = {1}}));
  run.evaluate(source_g(data_parallel), data_parallel);
  run.step(source_g(data_parallel), true);
  run.evaluate(source_g(data_parallel), data_parallel);
  run.step(source_g(data_parallel), true);
  output.finish(run);
  const auto count = [&](const std::string& text) {
    int matches = 0;
    for (std::size_t at = 0;
         (at = output.printed.find(text, at)) != std::string::npos; ++at)
      ++matches;
    return matches;
  };
  CAPTURE(recompute, data_parallel, output.printed);
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
  overflow_run output;
  auto layers = model_g();
  layers.insert(layers.begin() + 1,
                {"between", [] { return std::make_shared<sharing_layer>(); }});
  trainer run(layers, options_g(1, 1));
  run.attach(output.watch({.trace = {0}}));
  run.step(source_g(1));
  output.finish(run);
  const auto forward = output.printed.find(
    " shared_child (rank 0, stage 0, microbatch 0, forward)");
  REQUIRE(forward != std::string::npos);
  CHECK(output.printed.find(" shared_child (rank 0, stage 0, microbatch 0, f",
                            forward + 1)
        == std::string::npos);
}

TEST_CASE("the first bad tensor ends the run, with the frames before it") {
  overflow_run output;
  trainer run(model_g(), options_g(2, 1));
  run.attach(output.watch({.frames = 5}));
  run.step(rows_with(1, INFINITY));
  try {
    for (int step = 0; step < 50; ++step)
      run.step(rows_with(1, INFINITY));
    FAIL("the run went on");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("input[0] of fc"));
  }
  output.finish(run);
  CHECK(output.error_text.empty());
  CHECK_THAT(output.printed,
             ContainsSubstring("input[0] has infs")
               && ContainsSubstring("Detected inf/nan during batch_number=1")
               && ContainsSubstring("Last 5 forward frames:")
               && ContainsSubstring("inf input[0]"));
  REQUIRE(output.alerts.size() == 1);
  CHECK(output.alerts[0].source.step == 2);
}

TEST_CASE("the last 21 frames are shown, of as many batches as that takes") {
  overflow_run output;
  trainer run(model_g(), options_g(2, 1));
  run.attach(output.watch());
  for (int step = 0; step < 6; ++step)
    run.step(rows_with(5, NAN), true);
  output.finish(run);
  CHECK_THAT(output.printed, ContainsSubstring("batch_number=5")
                               && ContainsSubstring("Last 21 forward frames:"));
  std::size_t frames = 0;
  for (std::size_t at = 0; (at = output.printed.find(" (rank ", at)) + 1 != 0;
       ++at)
    ++frames;
  CHECK(frames == 21);
  CHECK_THAT(
    output.printed,
    ContainsSubstring("*** Finished batch number=4 ***\n\n\n" + seventeen
                      + " *** Starting batch number=5 ***\n"
                        "abs min  abs max  metadata\n"
                      + seventeen + " fc small_linear"));
  CHECK_THAT(output.printed, !ContainsSubstring("number=0"));
}

TEST_CASE("a bad tensor in the last step is an error at the end") {
  overflow_run output;
  trainer run(model_g(), options_g(2, 1));
  run.attach(output.watch());
  run.step(rows_with(0, NAN));
  output.finish(run);
  CHECK_THAT(output.error_text, ContainsSubstring("input[0] of fc"));
}

TEST_CASE("a bad tensor in a traced batch stops neither it nor the next") {
  overflow_run output;
  trainer run(model_g(), options_g(1, 1));
  run.attach(output.watch({.trace = {0}}));
  // Without an update the NaN does not persist in the parameters.
  run.step(rows_with(0, NAN), true);
  for (int step = 0; step < 3; ++step)
    run.step(rows_with(0, NAN), true);
  output.finish(run);
  CHECK(output.error_text.empty());
  CHECK_THAT(output.printed, ContainsSubstring("nan      nan input[0]"));
  CHECK_THAT(output.printed, !ContainsSubstring("Detected"));
}

TEST_CASE("the run is stopped after the batch asked for") {
  overflow_run output;
  trainer run(model_g(), options_g(1, 1));
  run.attach(output.watch({.abort_after = 2}));
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
  overflow_run output;
  trainer run(model_g(), options_g(1, 1));
  run.attach(output.watch({.underflow_share = 0.1}));
  run.step(rows_with(0, 1e-9F));
  output.finish(run);
  REQUIRE_FALSE(output.alerts.empty());
  CHECK_THAT(output.alerts[0].text, ContainsSubstring("zero in fp16"));
}

namespace {

/// Passes its input on; the gradients of the first `bad` backwards are not
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
  overflow_run output;
  auto run = run_with_bad_backwards(2, 1024);
  run.attach(output.watch());
  for (int step = 0; step < 4; ++step)
    run.step(source_g(1));
  output.finish(run);
  CHECK(output.error_text.empty());
  CHECK(output.printed.empty());
  REQUIRE(output.alerts.size() == 2);
  CHECK(output.alerts[1].source.step == 2);
  CHECK_THAT(output.alerts[0].text,
             ContainsSubstring("gradient of output of between")
               && ContainsSubstring("the loss scale halved"));
}

TEST_CASE("a scale that has come down to one takes the blame no longer") {
  overflow_run output;
  auto run = run_with_bad_backwards(100, 2);
  run.attach(output.watch());
  run.step(source_g(1));
  run.step(source_g(1));
  output.finish(run);
  CHECK(output.alerts.size() == 2);
  CHECK_THAT(output.error_text,
             ContainsSubstring("step 2: ")
               && ContainsSubstring("gradient of output of between"));
}

TEST_CASE("a loss scale is not to blame for a bad forward") {
  overflow_run output;
  auto run = run_with_bad_backwards(0, 1024);
  run.attach(output.watch());
  run.step(rows_with(0, NAN));
  output.finish(run);
  CHECK_THAT(output.error_text, ContainsSubstring("input[0] of fc"));
}

TEST_CASE("overflow options that can't be meant are refused") {
  CHECK_THROWS_AS(overflow_monitor({.frames = 0}, callback_sink({})), error);
  CHECK_THROWS_AS(overflow_monitor({.abort_after = -5}, callback_sink({})),
                  error);
  CHECK_THROWS_AS(overflow_monitor({.underflow_share = 2}, callback_sink({})),
                  error);
}
