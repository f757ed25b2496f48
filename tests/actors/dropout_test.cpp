// Dropout and other random draws: the plain loop's bits under every schedule.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("dropout trains the plain loop's bits under every schedule") {
  auto what = GENERATE(from_range(trained_schedules()));
  what.dropout = 0.2;
  CAPTURE(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
  what.recompute = true;
  CHECK(compare_with_plain(what, 2) == "");
  what.recompute = false;
  what.order = lane_order::ready_first;
  CHECK(compare_with_plain(what, 2) == "");
}

TEST_CASE("dropout trains the plain loop's bits with replicas and in shards") {
  small_case what{.schedule = GENERATE("1f1b", "zb_h1"), .data_parallel = 2};
  what.dropout = 0.2;
  what.sharding.mode =
    GENERATE(shard_mode::replicate, shard_mode::gradients, shard_mode::all);
  what.tied = GENERATE(false, true);
  CAPTURE(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

TEST_CASE("dropout trains a faked device as the CPU") {
  const auto device = std::make_shared<faked_accelerator>();
  small_case what{.schedule = GENERATE("1f1b", "zb_h1")};
  what.dropout = 0.2;
  CHECK(different_bits(train(what, device), train_plainly(what, nullptr))
        == "");
  CHECK(device->races() == std::vector<std::string>{});
}

namespace {

parameter_list trained(small_case what, std::uint64_t seed, int steps = 2) {
  what.dropout = 0.2;
  auto options = options_for(what);
  options.numerics.seed = seed;
  trainer run(model_for(what), std::move(options));
  for (int i = 0; i < steps; ++i)
    run.step(small_text());
  parameter_list copies;
  for (const auto& [name, value] : run.parameters())
    copies.emplace_back(name, value.detach().clone());
  return copies;
}

/// The largest difference between two runs' parameters.
double distance(const parameter_list& a, const parameter_list& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest =
      std::max(largest, (a[i].second - b[i].second).abs().max().item<double>());
  return largest;
}

}  // namespace

TEST_CASE("masks depend on the seed") {
  const small_case what{.use_sgd = true};
  CHECK(first_difference(trained(what, 1), trained(what, 1)) == "");
  CHECK(first_difference(trained(what, 1), trained(what, 2)) != "");
}

TEST_CASE("masks follow the microbatches to other replicas") {
  // The same four microbatches per step; only the rounding of gradient sums
  // differs.
  const small_case alone{.microbatches = 4, .use_sgd = true};
  const small_case replicas{
    .microbatches = 2, .data_parallel = 2, .use_sgd = true};
  CHECK(distance(trained(alone, 1), trained(replicas, 1)) < 1e-6);
  CHECK(distance(trained(alone, 1), trained(alone, 2)) > 1e-5);
}

TEST_CASE("validation drops nothing") {
  small_case what;
  trainer without(model_for(what), options_for(what));
  what.dropout = 0.5;
  trainer with(model_for(what), options_for(what));
  CHECK(with.evaluate(small_text(), 4).losses.front().value
        == without.evaluate(small_text(), 4).losses.front().value);
}

namespace {

enum class drawing : std::uint8_t { by_op, shared, shared_and_allowed };

/// Adds noise to its input, and multiplies by a weight.
struct noisy_layer final : stage_module {
  explicit noisy_layer(drawing which) : how(which) {
    weight =
      register_parameter("weight", at::rand({8, 8}, generator_at(1, 0)) * 0.3);
  }
  tensor_list forward(const tensor_list& inputs) override {
    const auto y = inputs[0].matmul(weight);
    if (how == drawing::by_op)
      return {y + 0.1 * at::rand(y.sizes(), op_generator())};
    return {at::dropout(y, 0.1, torch::nn::Module::is_training())};
  }
  bool draws_from_shared_generator() const override {
    return how == drawing::shared_and_allowed;
  }
  drawing how;
  at::Tensor weight;
};

model noisy_model(drawing how) {
  model layers;
  for (const auto* name : {"a", "b", "c", "d"})
    layers.push_back(
      {name, [how] { return std::make_shared<noisy_layer>(how); }});
  return layers;
}

source_pointer random_rows() {
  return make_source([](std::int64_t index) {
    const auto x = at::rand({4, 8}, generator_at(7, index));
    return microbatch_data{{x}, {x}, {}, 4};
  });
}

std::vector<loss_term> squared_error(const tensor_list& outputs,
                                     const microbatch_data& data) {
  return {{"mse", at::mse_loss(outputs[0], data.targets[0])}};
}

std::string compare_noise(const small_case& what) {
  auto options = options_for(what);
  auto plain_options = plain_options_for(what);
  options.numerics.loss = plain_options.numerics.loss = squared_error;
  trainer run(noisy_model(drawing::by_op), std::move(options));
  plain_loop plain(noisy_model(drawing::by_op), std::move(plain_options));
  const auto per_step = what.microbatches * what.data_parallel;
  for (int i = 0; i < 3; ++i) {
    run.step(random_rows());
    plain.step(
      [&](std::int64_t k) { return random_rows()->at(i * per_step + k); });
  }
  return first_difference(run.parameters(), plain.parameters());
}

}  // namespace

TEST_CASE("a layer's own draws are the plain loop's") {
  CHECK(compare_noise({}) == "");
  CHECK(compare_noise({.schedule = "zb_h1", .recompute = true}) == "");
  CHECK(compare_noise({.ranks = 4, .data_parallel = 2}) == "");
}

TEST_CASE("a layer that draws from LibTorch's generator is refused by name") {
  const auto step = [](drawing how) {
    auto options = options_for({});
    options.numerics.loss = squared_error;
    trainer run(noisy_model(how), std::move(options));
    run.step(random_rows());
  };
  CHECK_THROWS_WITH(step(drawing::shared),
                    ContainsSubstring("draws random numbers by aten::")
                      && ContainsSubstring("call troupe::dropout"));
  CHECK_NOTHROW(step(drawing::shared_and_allowed));
}
