#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../engine/transport/joined_meshes.hpp"
#include "faked_accelerator.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Multiplies by a weight, and adds a second weight only to positive values:
/// without any, the second weight has no gradient.
struct choosing_layer final : stage_module {
  choosing_layer() {
    weight = register_parameter("weight", at::full({4}, 0.5));
    other = register_parameter("other", at::full({4}, 0.25));
  }
  tensor_list forward(const tensor_list& inputs) override {
    const auto& x = inputs.at(0);
    return {x[0].item<double>() > 0 ? x * weight + other : x * weight};
  }
  at::Tensor weight, other;
};

model choosing_model() {
  const auto make = [] { return std::make_shared<choosing_layer>(); };
  return {{"first", make}, {"second", make}};
}

/// Inputs that are negative for replica `below`, of two replicas with two
/// microbatches each.
source_pointer signs(std::int64_t below) {
  return make_source([below](std::int64_t index) {
    const bool is_below = below == 2 || (index / 2) % 2 == below;
    return microbatch_data{
      {at::full({4}, (is_below ? -1.0 : 1.0) * double(index + 1))}, {}, {}};
  });
}

std::vector<loss_term> squares(const tensor_list& outputs,
                               const microbatch_data&) {
  return {{"loss", (outputs.at(0) * outputs.at(0)).mean()}};
}

trainer_options choosing_options() {
  auto options =
    options_for({.microbatches = 2, .data_parallel = 2, .use_sgd = true});
  options.numerics.loss = squares;
  return options;
}

parameter_list plain_parameters(const source_pointer& source) {
  auto options =
    plain_options_for({.microbatches = 2, .data_parallel = 2, .use_sgd = true});
  options.numerics.loss = squares;
  plain_loop loop(choosing_model(), options);
  for (std::int64_t step = 0; step < 3; ++step)
    loop.step([&](std::int64_t k) { return source->at(4 * step + k); });
  return loop.parameters();
}

}  // namespace

TEST_CASE("a gradient that one replica lacks counts as zeros") {
  for (const std::int64_t below : {0, 1, 2}) {
    CAPTURE(below);
    const auto source = signs(below);
    trainer run(choosing_model(), choosing_options());
    for (int i = 0; i < 3; ++i)
      run.step(source);
    run.check_replicas();
    CHECK(first_difference(run.parameters(), plain_parameters(source)) == "");
  }
}

TEST_CASE("a gradient that one process lacks counts as zeros") {
  for (const auto& [below, on_device] : {std::pair{0, false},
                                         {1, false},
                                         {2, false},
                                         {0, true},
                                         {1, true},
                                         {2, true}}) {
    CAPTURE(below, on_device);
    const auto source = signs(below);
    const auto expected = plain_parameters(source);
    joined_meshes meshes(2);
    for (const auto& problem : in_all(meshes, [&](const auto& job) {
           auto options = choosing_options();
           options.job = job;
           if (on_device)
             options.devices = {std::make_shared<faked_accelerator>()};
           trainer run(choosing_model(), options);
           for (int i = 0; i < 3; ++i)
             run.step(source);
           run.check_replicas();
           const auto all = run.gather_parameters();
           if (job->place().leads())
             CHECK(first_difference(all, expected) == "");
         }))
      CHECK(problem == "");
  }
}

TEST_CASE("stages without parameters have nothing to average") {
  struct doubling_layer final : stage_module {
    tensor_list forward(const tensor_list& inputs) override {
      return {inputs.at(0) * 2};
    }
  };
  auto layers = choosing_model();
  layers[1].make = [] { return std::make_shared<doubling_layer>(); };
  joined_meshes meshes(2);
  for (const auto& problem : in_all(meshes, [&](const auto& job) {
         auto options = choosing_options();
         options.job = job;
         options.split = {{0, 1}, {1, 2}};
         options.devices = {std::make_shared<faked_accelerator>()};
         trainer run(layers, options);
         expect(run.step(signs(0)).summary.updated, "the step updates");
       }))
    CHECK(problem == "");
}

TEST_CASE("replicas that begin with different values are refused") {
  auto layers = choosing_model();
  layers[0].make = [count = std::make_shared<int>(0)] {
    auto layer = std::make_shared<choosing_layer>();
    layer->weight.detach().add_((*count)++);
    return layer;
  };
  trainer run(layers, choosing_options());
  CHECK_THROWS_MATCHES(
    run.step(signs(0)), error,
    MessageMatches(ContainsSubstring("different values of first.weight")));
}
