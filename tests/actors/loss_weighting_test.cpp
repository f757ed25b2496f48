// What an update optimises if microbatches count different numbers of tokens,
// compared with LibTorch's own gradient of one mean and with the plain loop.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "graph_run.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// small_text, where microbatch k counts so many targets; other microbatches
/// count all.
source_pointer masked_text(std::vector<std::int64_t> counted) {
  return preprocess(small_text(), [counted = std::move(counted)](
                                    microbatch_data data, std::int64_t index) {
    if (index < std::ssize(counted))
      data.targets[0].view({-1}).slice(
        0, counted[static_cast<std::size_t>(index)]) = -100;
    return data;
  });
}

/// Several steps of microbatches of 16 targets with mostly different counts.
source_pointer uneven_text() {
  return masked_text({16, 1, 0, 7,  3, 16, 0, 0, 12, 5, 2, 9,
                      0,  1, 1, 16, 8, 0,  4, 4, 11, 0, 6, 13});
}

/// LibTorch's own gradient, by parameter, of the mean over all counted targets.
parameter_list gradient_of_mean(const model& layers,
                                const std::vector<microbatch_data>& all) {
  tensor_list inputs, targets;
  for (const auto& data : all) {
    inputs.push_back(data.inputs[0]);
    targets.push_back(data.targets[0]);
  }
  layer_sequence whole(layers, {0, static_cast<std::int32_t>(layers.size())});
  const auto logits = whole.forward({at::cat(inputs)}).at(0);
  at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}),
                         at::cat(targets).reshape({-1}))
    .backward();
  parameter_list gradients;
  for (const auto& [name, value] : whole.parameters_by_name())
    gradients.emplace_back(name, value.grad());
  return gradients;
}

/// The largest difference between a parameter's change by SGD with learning
/// rate 1 and its negative gradient.
double distance_from(const parameter_list& before, const parameter_list& after,
                     const parameter_list& gradients) {
  double largest = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    largest = std::max(
      largest, (before[i].second - after[i].second - gradients[i].second)
                 .abs()
                 .max()
                 .item<double>());
  return largest;
}

std::vector<small_case> weighted_cases() {
  return {{.schedule = "gpipe"},
          {.schedule = "1f1b"},
          {.schedule = "zb_h1"},
          {.schedule = "zb_v", .stages_per_rank = 2},
          {.schedule = "interleaved_1f1b", .stages_per_rank = 2},
          {.schedule = "seq_1f1b", .slices = 3},
          {.schedule = "dualpipe"},
          {.schedule = "1f1b", .data_parallel = 2},
          {.schedule = "zb_h1",
           .data_parallel = 2,
           .sharding = {.mode = shard_mode::gradients}},
          {.schedule = "1f1b",
           .data_parallel = 2,
           .sharding = {.mode = shard_mode::all}}};
}

}  // namespace

TEST_CASE("an update is the gradient of the mean over all counted tokens") {
  auto what = GENERATE(from_range(weighted_cases()));
  CAPTURE(describe(what));
  const auto layers = model_for(what);
  const auto text = masked_text({16, 1, 0, 5, 0, 0, 9, 2});
  std::vector<microbatch_data> all;
  for (int k = 0; k < what.microbatches * what.data_parallel; ++k)
    all.push_back(text->at(k));
  auto options = options_for(what);
  options.numerics.optimizer = sgd{.learning_rate = 1};
  trainer run(layers, std::move(options));
  const auto before = copies_of(run.parameters());
  const auto report = run.step(text);
  CHECK(distance_from(before, run.parameters(), gradient_of_mean(layers, all))
        < 1e-6);
  const auto& loss = report.summary.losses.front();
  CHECK(loss.count == (what.data_parallel == 1 ? 22 : 33));
}

TEST_CASE("uneven microbatches train the plain loop's bits") {
  auto what = GENERATE(from_range(weighted_cases()));
  const bool scaled = GENERATE(false, true);
  if (scaled) {
    what.clip = 0.5;
    what.loss_scale = {.initial = 1000, .dynamic = true};
  }
  CAPTURE(describe(what));
  CHECK(compare_with_plain(model_for(what), what, 3, {}, uneven_text()) == "");
}

TEST_CASE("updates within a step divide by the counts of their own") {
  const auto* const schedule = GENERATE("weight_stash", "two_bw");
  const auto data_parallel = GENERATE(1, 2);
  const small_case what{.schedule = schedule, .data_parallel = data_parallel};
  CHECK(compare_with_plain(model_for(what), what, 3, {}, uneven_text()) == "");
}

TEST_CASE("equal counts keep the bits of equally weighted microbatches") {
  for (auto what : weighted_cases()) {
    what.slices = 1;
    if (what.schedule == "seq_1f1b")
      continue;             // slices of different lengths
    what.microbatches = 6;  // 1 / 6 is not exact
    what.loss_scale = {.initial = 1000};
    CAPTURE(describe(what));
    std::vector<parameter_list> trained;
    for (const auto weighting :
         {loss_weighting::tokens, loss_weighting::microbatches}) {
      auto options = options_for(what);
      options.numerics.weighting = weighting;
      trainer run(model_for(what), std::move(options));
      for (int i = 0; i < 2; ++i)
        run.step(masked_text(std::vector<std::int64_t>(24, 11)));
      trained.push_back(copies_of(run.parameters()));
    }
    CHECK(first_difference(trained[0], trained[1]) == "");
  }
}

TEST_CASE("equally weighted microbatches report the mean of their means") {
  small_case what;
  auto options = options_for(what);
  options.numerics.weighting = loss_weighting::microbatches;
  auto plain_options = plain_options_for(what);
  plain_options.numerics.weighting = loss_weighting::microbatches;
  plain_loop plain(model_for(what), std::move(plain_options));
  double mean = 0;
  const auto text = masked_text({16, 1, 0, 5});
  for (int k = 0; k < 4; ++k)
    mean += plain.evaluate([&](std::int64_t) { return text->at(k); }, 1).value;
  trainer run(model_for(what), std::move(options));
  const auto report = run.step(text);
  const auto& loss = report.summary.losses.front();
  CHECK(loss.value == Catch::Approx(mean / 4).epsilon(1e-6));
  const auto result = plain.step([&](std::int64_t k) { return text->at(k); });
  CHECK(loss.value == result.loss);
  CHECK(first_difference(run.parameters(), plain.parameters()) == "");
}

TEST_CASE("an update that counts no token changes nothing") {
  auto what = GENERATE(from_range(weighted_cases()));
  what.clip = GENERATE(0.0, 1.0);
  what.optimizer = adamw{.weight_decay = 0.5};
  CAPTURE(describe(what));
  const auto per_step = what.microbatches * what.data_parallel;
  // The second step has none.
  std::vector<std::int64_t> counts(static_cast<std::size_t>(2 * per_step), 16);
  std::fill(counts.begin() + per_step, counts.end(), 0);
  const auto text = masked_text(counts);
  auto options = options_for(what);
  options.numerics.learning_rate.warmup_steps = 10;
  const auto weighting =
    what.clip == 0 ? loss_weighting::tokens : loss_weighting::microbatches;
  options.numerics.weighting = weighting;
  trainer run(model_for(what), std::move(options));
  CHECK(run.step(text).summary.updated);
  const auto before = copies_of(run.parameters());
  const auto skipped = run.step(text).summary;
  CHECK_FALSE(skipped.updated);
  CHECK(skipped.losses.front().count == 0);
  CHECK(first_difference(run.parameters(), before) == "");
  // Neither the moments nor the schedule of learning rates have advanced.
  const auto next = run.step(text).summary;
  CHECK(next.learning_rate == skipped.learning_rate);
  auto plain_options = plain_options_for(what);
  plain_options.numerics.learning_rate.warmup_steps = 10;
  plain_options.numerics.weighting = weighting;
  plain_loop plain(model_for(what), std::move(plain_options));
  for (const auto step : {0, 1, 2}) {
    const auto result =
      plain.step([&](std::int64_t k) { return text->at(step * per_step + k); });
    CHECK(result.updated == (step != 1));
  }
  CHECK(first_difference(run.parameters(), plain.parameters()) == "");
}

TEST_CASE("of updates within a step one that counts no token changes nothing") {
  const auto* const schedule = GENERATE("weight_stash", "two_bw");
  small_case what{.schedule = schedule};
  what.optimizer = adamw{.weight_decay = 0.5};
  CHECK(compare_with_plain(model_for(what), what, 3, {},
                           masked_text({16, 0, 0, 0, 0, 0, 16, 16, 0, 0, 0, 0}))
        == "");
}

namespace {

/// The mean of the first one or two rows' squared logits; the first input id of
/// a microbatch decides how many.
std::vector<loss_term> squares(const tensor_list& outputs,
                               const microbatch_data& data) {
  const auto rows = 1 + data.inputs[0][0][0].item<std::int64_t>() % 2;
  return {{"squares", outputs[0].slice(0, 0, rows).square().mean(),
           static_cast<double>(rows)}};
}

item_counts count_squares(const microbatch_data& data) {
  return {
    {"squares",
     1 + static_cast<double>(data.inputs[0][0][0].item<std::int64_t>() % 2)}};
}

step_report step_with(const loss_function& loss,
                      loss_weighting weighting = loss_weighting::tokens) {
  auto options = options_for({});
  options.numerics.loss = loss;
  options.numerics.weighting = weighting;
  trainer run(model_for({}), std::move(options));
  return run.step(small_text());
}

}  // namespace

TEST_CASE("a loss of one's own weighs its items by the counts that it tells") {
  const loss_function loss(squares, count_squares);
  auto options = options_for({.use_sgd = true});
  auto plain_options = plain_options_for({.use_sgd = true});
  options.numerics.loss = plain_options.numerics.loss = loss;
  trainer run(model_for({}), std::move(options));
  plain_loop plain(model_for({}), std::move(plain_options));
  const auto text = small_text();
  for (int i = 0; i < 3; ++i) {
    const auto reported = run.step(text).summary.losses.front();
    const auto result =
      plain.step([&](std::int64_t k) { return text->at(4 * i + k); });
    CHECK(reported.value == result.loss);
    CHECK(reported.count == result.counted);
  }
  CHECK(first_difference(run.parameters(), plain.parameters()) == "");
}

TEST_CASE("counts that are not told beforehand have to be equal") {
  CHECK_THROWS_WITH(step_with(squares),
                    ContainsSubstring("the loss 'squares' is the mean of")
                      && ContainsSubstring("give the loss function `counts`"));
  CHECK_NOTHROW(step_with(squares, loss_weighting::microbatches));
  const auto one_less = [](const microbatch_data& data) {
    auto counts = count_squares(data);
    counts["squares"] -= 1;
    return counts;
  };
  CHECK_THROWS_WITH(step_with({squares, one_less}),
                    ContainsSubstring("of which its `counts` told"));
  const auto negative = [](const microbatch_data&) {
    return item_counts{{"squares", -1}};
  };
  CHECK_THROWS_WITH(step_with({squares, negative}),
                    ContainsSubstring("counts -1 items of a microbatch"));
}

/// Within each of the two replicas the counts are equal.
TEST_CASE("counts that differ between replicas alone are found") {
  small_case what{.ranks = 1, .microbatches = 2, .data_parallel = 2};
  auto options = options_for(what);
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data& data) {
    const auto rows = 1 + data.targets[0][0][0].item<std::int64_t>();
    return std::vector<loss_term>{
      {"own", outputs[0].square().mean(), static_cast<double>(rows)}};
  };
  trainer run(model_for(what), std::move(options));
  const auto text = small_text();
  CHECK_THROWS_WITH(run.step(make_source([&](std::int64_t index) {
    auto data = text->at(index);
    data.targets[0] = at::full_like(data.targets[0], index / what.microbatches);
    return data;
  })),
                    ContainsSubstring("the mean of 1 items of one microbatch"));
}

TEST_CASE("a source that counts equally, and does not, fails the step") {
  const auto text = uneven_text();
  const auto wrong = make_source(
    [text](std::int64_t index) { return text->at(index); }, -1, true);
  trainer run(model_for({}), options_for({}));
  CHECK_THROWS_WITH(run.step(wrong),
                    ContainsSubstring("a source whose microbatches count "
                                      "equally must do so"));
}

namespace {

/// Computes its losses itself, as the head of a large vocabulary does.
struct own_head final : stage_module {
  explicit own_head(bool adds) : adds_more(adds) {
    weight = register_parameter("weight", at::ones({1}));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0].to(at::kFloat) * weight};
  }
  std::optional<std::vector<loss_term>> losses(
    const tensor_list& inputs, const microbatch_data&) override {
    return std::vector<loss_term>{{"own", forward(inputs)[0].mean(), 16}};
  }
  bool adds_losses() const override { return adds_more; }
  at::Tensor weight;
  bool adds_more;
};

std::string first_loss(const loss_function& loss, bool adds) {
  auto options = options_for({.ranks = 1});
  options.numerics.loss = loss;
  trainer run({{"head", [adds] { return std::make_shared<own_head>(adds); }}},
              std::move(options));
  return run.step(small_text()).summary.losses.front().name;
}

}  // namespace

TEST_CASE("a head computes the cross entropy itself, and no other loss") {
  CHECK(first_loss(cross_entropy_loss(), false) == "own");
  const loss_function another(
    [](const tensor_list& outputs, const microbatch_data&) {
      return std::vector<loss_term>{{"another", outputs[0].mean()}};
    });
  CHECK(first_loss(another, false) == "another");
  CHECK_THROWS_WITH(first_loss(another, true),
                    ContainsSubstring("adds losses of its own"));
}
