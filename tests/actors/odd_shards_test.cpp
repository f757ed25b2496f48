// Stages whose parameters have odd numbers of elements, or few: shards of
// padding alone, parameters in several shards, scalars, and no parameters.
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "small_model.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

using shape_list = std::vector<std::vector<std::int64_t>>;

/// x times a number per parameter.
struct odd_layer final : stage_module {
  explicit odd_layer(const shape_list& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      parts.push_back(register_parameter(
        "part" + std::to_string(i),
        at::full(shapes[i], 0.25 + 0.125 * static_cast<double>(i))));
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto x = inputs[0];
    for (const auto& each : parts)
      x = x * (1 + at::sum(each) * 0.001);
    return {x};
  }
  tensor_list parts;
};

model odd_model(const std::vector<shape_list>& stages) {
  model layers;
  for (std::size_t i = 0; i < stages.size(); ++i)
    layers.push_back({"layer" + std::to_string(i), [shapes = stages[i]] {
                        return std::make_shared<odd_layer>(shapes);
                      }});
  return layers;
}

loss_function mean_loss() {
  return [](const tensor_list& outputs, const microbatch_data&) {
    return std::vector<loss_term>{{"loss", at::mean(outputs[0])}};
  };
}

microbatch_data input(std::int64_t index) {
  microbatch_data data;
  data.inputs = {at::full({3}, 1 + 0.5 * static_cast<double>(index % 7))};
  return data;
}

}  // namespace

TEST_CASE("parameters of every size train the plain loop's bits in shards") {
  const auto layers = odd_model(GENERATE(
    std::vector<shape_list>{{{1}}, {{3}, {1}}},
    std::vector<shape_list>{{{}}, {{2, 5}}},
    std::vector<shape_list>{{{0}, {7}}, {{127}, {0}, {1}}},
    std::vector<shape_list>{{{128}}, {{129}, {}}},
    std::vector<shape_list>{{{131}, {2, 0}, {257}}, {{1009}, {1}, {3, 43}}}));
  const auto data_parallel = GENERATE(2, 4);
  const auto optimizer = GENERATE(as<std::optional<optimizer_options>>{},
                                  std::nullopt, adafactor{}, muon{});
  small_case what{
    .ranks = 2,
    .microbatches = 2,
    .data_parallel = data_parallel,
    .optimizer = optimizer,
    .sharding = {.mode = GENERATE(shard_mode::gradients, shard_mode::all),
                 .multiple = GENERATE(32, 128)}};
  INFO(describe(what) << " padded to " << what.sharding.multiple);
  auto options = options_for(what);
  auto plain = plain_options_for(what);
  options.numerics.loss = plain.numerics.loss = mean_loss();
  trainer run(layers, std::move(options));
  plain_loop oracle(layers, std::move(plain));
  const auto source = make_source(input);
  const std::int64_t per_step = what.microbatches * what.data_parallel;
  for (std::int64_t i = 0; i < 3; ++i) {
    run.step(source);
    oracle.step([&](std::int64_t k) { return input(i * per_step + k); });
  }
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
  run.check_replicas();
}
