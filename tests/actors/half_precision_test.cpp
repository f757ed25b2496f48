// What half precision must not lose: small gradients, sums of many
// microbatches, the warm-up of the learning rate, and the recovery from
// overflows.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <ATen/ops/cat.h>

#include <cmath>
#include <map>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

small_case case_in(at::ScalarType type) {
  small_case what{.use_sgd = true};
  what.dtypes.parameters = type;
  return what;
}

/// Another loss times `factor`.
loss_function scaled_loss(double factor) {
  return [factor, base = cross_entropy_loss()](const tensor_list& outputs,
                                               const microbatch_data& data) {
    auto terms = base(outputs, data);
    terms[0].value = terms[0].value * factor;
    return terms;
  };
}

/// The change of all masters, in one tensor, by one step of SGD whose loss is
/// `factor` times the usual one and whose learning rate is divided by `factor`.
/// Equal for all factors unless gradients underflow.
at::Tensor update_in_fp16(double factor, double scale,
                          std::int32_t data_parallel = 1) {
  auto what = case_in(at::kHalf);
  what.data_parallel = data_parallel;
  auto options = options_for(what);
  options.numerics.loss = scaled_loss(factor);
  options.numerics.loss_scale = {.initial = scale};
  options.numerics.optimizer = sgd{.learning_rate = 0.1 / factor};
  trainer run(model_for(what), options);
  std::map<std::string, at::Tensor> before;
  for (const auto& [name, value] : run.parameters())
    before[name] = value.to(at::kFloat);
  run.step(small_text());
  tensor_list changes;
  for (const auto& [rank, tensors] : run.snapshot())
    for (const auto& [name, value] : tensors)
      if (constexpr std::string_view masters = "optimizer/master/";
          name.starts_with(masters))
        changes.push_back(
          (value - before.at(name.substr(masters.size()))).reshape(-1));
  return at::cat(changes);
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

double norm_of_step(small_case what, std::int32_t microbatches, bool in_fp32) {
  what.microbatches = microbatches;
  auto options = options_for(what);
  options.numerics.accumulate_in_fp32 = in_fp32;
  trainer run(model_for(what), options);
  const auto text = small_text();
  const auto same = make_source([text](std::int64_t) { return text->at(0); });
  return run.step(same).summary.gradient_norm;
}

}  // namespace

TEST_CASE("gradients of fp16 are unscaled in fp32") {
  const auto usual = update_in_fp16(1, 1);
  CHECK(usual.numel() > 1000);
  // Gradients of about 1e-8 are 0 in fp16 unless they are scaled.
  CHECK(relative_difference(update_in_fp16(1e-6, 0x1p16), usual) < 0.02);
  CHECK(relative_difference(update_in_fp16(1e-6, 0x1p16, 2),
                            update_in_fp16(1, 1, 2))
        < 0.02);
  CHECK(relative_difference(update_in_fp16(1e-6, 1), usual) > 0.5);
  // Unscaling by a small scale would overflow.
  CHECK(relative_difference(update_in_fp16(1e6, 1e-6), usual) < 0.02);
}

TEST_CASE("half precision with a loss scale has the plain loop's bits") {
  auto what = case_in(at::kHalf);
  what.loss_scale.dynamic = true;
  what.clip = 0.5;
  for (const auto* schedule : {"1f1b", "zb_h1", "dualpipe"}) {
    what.schedule = schedule;
    for (what.data_parallel = 1; what.data_parallel <= 2; ++what.data_parallel)
      for (const bool wide : {true, false}) {
        what.accumulate_in_fp32 = wide;
        INFO(describe(what) << " wide " << wide);
        CHECK(compare_with_plain(what, 3) == "");
      }
  }
}

TEST_CASE("the sum of many microbatches' gradients in bf16 is that of fp32") {
  const auto what = case_in(at::kBFloat16);
  const auto one = norm_of_step(what, 2, true);
  // Equal microbatches: the mean is that of one.
  CHECK(std::abs(norm_of_step(what, 512, true) / one - 1) < 0.002);
  CHECK(norm_of_step(what, 512, false) / one < 0.98);
}

TEST_CASE("the learning rate warms up by updates, not by steps") {
  auto what = case_in(at::kHalf);
  what.loss_scale = {.initial = 0x1p40, .dynamic = true};
  auto options = options_for(what);
  auto plain = plain_options_for(what);
  for (auto* each : {&options.numerics, &plain.numerics})
    each->learning_rate.warmup_steps = 10;
  trainer run(model_for(what), options);
  plain_loop loop(model_for(what), plain);
  const auto text = small_text();
  int skipped = 0, updates = 0;
  while (updates < 3) {
    const auto first = run.position();
    const auto step = run.step(text).summary;
    const auto own =
      loop.step([&](std::int64_t k) { return text->at(first + k); });
    CHECK(own.updated == step.updated);
    CHECK(own.learning_rate == step.learning_rate);
    updates += step.updated ? 1 : 0;
    skipped += step.updated ? 0 : 1;
    CHECK(std::abs(step.learning_rate - 0.01 * std::max(updates, 1)) < 1e-9);
    REQUIRE(skipped < 60);
  }
  CHECK(skipped > 10);
  CHECK(run.progress().skipped == skipped);
  CHECK(first_difference(run.parameters(), loop.parameters()) == "");
}

TEST_CASE("updates that are skipped in vain end a run, and say why") {
  auto what = case_in(at::kHalf);
  what.loss_scale = {.initial = 4, .dynamic = true, .most_skipped = 3};
  what.data_parallel = GENERATE(1, 2);
  if (what.data_parallel == 2)
    what.sharding.mode = shard_mode::all;
  auto options = options_for(what);
  SECTION("a gradient") {
    // The gradient of the loss is beyond fp16, the loss is not.
    options.numerics.loss = scaled_loss(1e9);
    trainer run(model_for(what), options);
    for (int i = 0; i < 4; ++i) {
      const auto step = run.step(small_text()).summary;
      CHECK_FALSE(step.updated);
      CHECK(step.not_finite.starts_with("head"));
    }
    CHECK_THROWS_MATCHES(run.step(small_text()), error,
                         MessageMatches(ContainsSubstring(
                           "step 5: 3 updates in a row were skipped at the "
                           "smallest loss scale, 1: the gradient of 'head")));
  }
  SECTION("a parameter") {
    trainer run(model_for(what), options);
    auto values = run.parameters();
    for (auto& [name, value] : values)
      value = value.clone();
    values.at(3).second.view(-1)[0] = INFINITY;
    run.load(values, "a test");
    for (int i = 0; i < 4; ++i)
      run.step(small_text());
    CHECK_THROWS_MATCHES(
      run.step(small_text()), error,
      MessageMatches(ContainsSubstring("the parameter '" + values.at(3).first
                                       + "' holds a NaN or an infinity")));
  }
}

TEST_CASE("the plain loop ends alike where updates are skipped in vain") {
  auto what = case_in(at::kHalf);
  what.loss_scale = {.initial = 2, .dynamic = true, .most_skipped = 1};
  auto options = plain_options_for(what);
  options.numerics.loss = scaled_loss(1e9);
  plain_loop loop(model_for(what), options);
  const auto text = small_text();
  const auto step = [&] {
    return loop.step([&](std::int64_t k) { return text->at(k); });
  };
  CHECK(step().not_finite.starts_with("head"));
  CHECK_THROWS_MATCHES(
    step(), error, MessageMatches(ContainsSubstring("the gradient of 'head")));
}
