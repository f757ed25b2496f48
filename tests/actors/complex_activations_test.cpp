// Activations of complex numbers between stages, and their gradients.
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>
#include <catch2/catch_test_macros.hpp>

#include "each_tensor.hpp"
#include "small_model.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

struct to_complex final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {at::complex(inputs[0] * weight, inputs[0] + weight)};
  }
  at::Tensor weight = register_parameter("weight", at::full({1}, 0.5));
};

struct magnitude final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {at::abs(inputs[0] * weight)};
  }
  at::Tensor weight = register_parameter("weight", at::full({1}, 2.0));
};

model complex_model() {
  return {{"first", [] { return std::make_shared<to_complex>(); }},
          {"last", [] { return std::make_shared<magnitude>(); }}};
}

std::vector<loss_term> mean_output(const tensor_list& outputs,
                                   const microbatch_data&) {
  return {{"loss", at::mean(outputs[0])}};
}

}  // namespace

TEST_CASE("complex activations carry their gradients between stages") {
  const auto source = make_source([](std::int64_t index) {
    microbatch_data data;
    data.inputs = {at::arange(1, 5, at::kFloat) + static_cast<double>(index)};
    return data;
  });
  for (const auto* name : {"1f1b", "zb_h1"}) {
    CAPTURE(name);
    trainer_options options;
    options.schedule = make_schedule(name, {.ranks = 2, .microbatches = 2});
    options.numerics.optimizer = sgd{.learning_rate = 0.1};
    options.numerics.loss = mean_output;
    plain_options plain;
    plain.microbatches = 2;
    plain.numerics = options.numerics;
    trainer run(complex_model(), options);
    plain_loop oracle(complex_model(), plain);
    for (int step = 0; step < 3; ++step) {
      run.step(source);
      oracle.step([&](std::int64_t k) { return source->at(2 * step + k); });
    }
    CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
    CHECK(run.parameters()[0].second.item<float>() != 0.5F);
  }
}
