#include "troupe/engine/stage/module/module_compute.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "driven_stage.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::testing::driven_stage;

namespace {

/// y = tanh(x w), z = an integer tensor passed through; two tensors in and out
/// if there are two inputs.
struct tanh_layer final : stage_module {
  tanh_layer() {
    weight =
      register_parameter("weight", at::tensor({0.5, -1.0}).to(at::kFloat));
  }
  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    auto outputs = inputs;
    outputs[0] = at::tanh(inputs[0] * weight);
    return outputs;
  }
  at::Tensor weight;
};

struct masked_layer final : stage_module {
  tensor_list forward(const tensor_list&) override { return {}; }
  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override {
    return {inputs[0] * arguments.at("mask")};
  }
  bool reads_arguments() const override { return true; }
};

using layer_maker = std::function<std::shared_ptr<stage_module>()>;

/// A stage between two other ones.
std::shared_ptr<layer_sequence> sequence_of(const layer_maker& make) {
  const model layers{{"before", make}, {"layer", make}, {"behind", make}};
  return std::make_shared<layer_sequence>(layers, layer_range{1, 2});
}

std::shared_ptr<stage_module> make_tanh() {
  return std::make_shared<tanh_layer>();
}

std::shared_ptr<layer_sequence> tanh_sequence() {
  return sequence_of(make_tanh);
}

step_settings training_step(double loss_gradient = 1) {
  step_settings settings;
  settings.learning_rate = 0.1;
  settings.loss_gradient = loss_gradient;
  return settings;
}

module_stage_options middle_stage() {
  module_stage_options options;
  options.index = 1;
  options.numerics.optimizer = sgd{};
  return options;
}

at::Tensor weight_of(const std::shared_ptr<layer_sequence>& module) {
  return module->parameters_by_name().at(0).second;
}

at::Tensor input() {
  return at::tensor({1.0, 2.0}).to(at::kFloat);
}

}  // namespace

TEST_CASE("a stage's gradients equal those of its function") {
  const auto module = tanh_sequence();
  module_compute stage(module, middle_stage());
  driven_stage ops(stage);
  stage.begin_step(training_step());
  const auto y = ops.forward({0, 0}, {{input()}}, {});
  const auto gx = ops.backward(op_kind::backward, {0, 0}, {{at::ones({2})}});
  const auto w = weight_of(module);
  const auto slope = 1 - y.at(0).at(0) * y.at(0).at(0);  // of tanh
  CHECK(at::allclose(gx.at(0).at(0), slope * w.detach()));
  CHECK(at::allclose(w.grad(), slope * input()));
  CHECK_NOTHROW(stage.end_step());
}

TEST_CASE("gradients accumulate over microbatches and drop with the step") {
  const auto stage = make_module_stage(tanh_sequence(), middle_stage());
  const auto begin = [&] {
    stage.compute->begin_step(training_step());
    stage.parameters->begin_step(training_step());
  };
  const auto backward_of = [&](std::int32_t k) {
    driven_stage ops(*stage.compute);
    ops.forward({k, 0}, {{input()}}, {});
    ops.backward(op_kind::backward, {k, 0}, {{at::ones({2})}});
  };
  begin();
  backward_of(0);
  const auto weight = stage.parameters->parameters().at(0);
  const auto once = weight.grad().clone();
  backward_of(1);
  CHECK(at::equal(weight.grad(), once + once));
  begin();
  CHECK_FALSE(weight.grad().defined());
}

TEST_CASE("gradients leave a stage's parameters and come back to an update") {
  const auto stage = make_module_stage(tanh_sequence(), middle_stage());
  stage.compute->begin_step(training_step());
  stage.parameters->begin_step(training_step());
  driven_stage ops(*stage.compute);
  ops.forward({0, 0}, {{input()}}, {});
  ops.backward(op_kind::backward, {0, 0}, {{at::ones({2})}});
  auto& parameters = *stage.parameters;
  const auto weight = parameters.parameters().at(0);
  const auto before = weight.detach().clone();
  auto gradients = parameters.take_gradients();
  CHECK_FALSE(weight.grad().defined());
  gradients.at(0).mul_(2);
  const auto doubled = gradients[0].clone();
  parameters.put_gradients(std::move(gradients), {});
  CHECK(at::equal(weight.grad(), doubled));
  parameters.update(0.5);
  CHECK(at::allclose(weight.detach(), before - 0.1 * 0.5 * doubled));
  CHECK_THROWS_MATCHES(
    parameters.put_gradients({at::ones({2}), at::ones({2})}, {}), error,
    MessageMatches(ContainsSubstring("2 gradients of 1 parameters")));
}

TEST_CASE("several tensors pass a stage, integers without a gradient") {
  module_compute stage(tanh_sequence(), middle_stage());
  driven_stage ops(stage);
  stage.begin_step(training_step());
  const auto ids = at::arange(3);
  const auto outputs = ops.forward({0, 0}, {{input(), ids, input()}}, {}).at(0);
  REQUIRE(outputs.size() == 3);
  CHECK(at::equal(outputs[1], ids));
  const auto gradients =
    ops
      .backward(op_kind::backward, {0, 0},
                {{at::ones({2}), at::Tensor{}, at::ones({2})}})
      .at(0);
  CHECK(gradients[0].defined());
  CHECK_FALSE(gradients[1].defined());
  CHECK(at::equal(gradients[2], at::ones({2})));
}

TEST_CASE("an output's memory is free once no other holder remains") {
  module_compute stage(
    sequence_of([] {
      struct scale final : stage_module {
        tensor_list forward(const tensor_list& inputs) override {
          return {inputs[0] * 2};
        }
      };
      return std::make_shared<scale>();
    }),
    middle_stage());
  stage.begin_step(training_step());
  driven_stage ops(stage);
  auto outputs = ops.forward({0, 0}, {{input()}}, {});
  const auto storage = outputs[0][0].storage().getWeakStorageImpl();
  outputs.clear();
  CHECK(storage.expired());
  CHECK(
    at::equal(ops.backward(op_kind::backward, {0, 0}, {{at::ones({2})}})[0][0],
              at::ones({2}) * 2));
}

TEST_CASE("recompute gives the same bits and keeps only the input") {
  auto options = middle_stage();
  const auto first = tanh_sequence(), second = tanh_sequence();
  module_compute plain(first, options);
  options.numerics.recompute = true;
  module_compute again(second, options);
  const auto gradient_of = [](module_compute& stage) {
    driven_stage ops(stage);
    stage.begin_step(training_step());
    ops.forward({0, 0}, {{input()}});
    return ops.backward(op_kind::backward, {0, 0}, {{at::ones({2})}})[0][0];
  };
  CHECK(at::equal(gradient_of(plain), gradient_of(again)));
  CHECK(at::equal(weight_of(first).grad(), weight_of(second).grad()));
}

TEST_CASE("the last stage's gradient starts as the settings say") {
  module_stage_options options;
  options.index = 0;
  options.numerics.optimizer = sgd{};
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"sum", outputs[0].sum(), 2, 1},
                                  {"twice", outputs[0].sum() * 2, 2, 0}};
  };
  const auto module = std::make_shared<layer_sequence>(
    model{{"layer", make_tanh}}, layer_range{0, 1});
  module_compute stage(module, options);
  driven_stage ops(stage);
  stage.begin_step(training_step(1024.0 / (4 * 2)));
  microbatch_data data;
  data.inputs = {input()};
  CHECK(ops.forward({0, 0}, {}, data).empty());
  CHECK(ops.backward(op_kind::backward, {0, 0}, {}).empty());
  const auto w = weight_of(module);
  const auto y = at::tanh(input() * w.detach());
  CHECK(at::allclose(w.grad(), (1 - y * y) * input() * 128));
  const auto result = stage.end_step();
  REQUIRE(result.losses.size() == 2);
  CHECK(result.losses[1].value == 2 * result.losses[0].value);
}

TEST_CASE("arguments reach modules that read them") {
  const auto module =
    sequence_of([] { return std::make_shared<masked_layer>(); });
  CHECK(module->reads_arguments());
  CHECK_FALSE(tanh_sequence()->reads_arguments());
  module_compute stage(module, middle_stage());
  driven_stage ops(stage);
  stage.begin_step(training_step());
  microbatch_data data;
  data.arguments["mask"] = at::tensor({0.0, 1.0}).to(at::kFloat);
  CHECK(at::equal(ops.forward({0, 0}, {{input()}}, data)[0][0],
                  at::tensor({0.0, 2.0}).to(at::kFloat)));
}

TEST_CASE("a backward without what its forward has left is refused") {
  module_compute stage(tanh_sequence(), middle_stage());
  driven_stage ops(stage);
  stage.begin_step(training_step());
  ops.forward({3, 0}, {{input()}});
  const auto refused = [&](op_kind kind, microbatch_key key,
                           const std::string& text) {
    CHECK_THROWS_MATCHES(ops.backward(kind, key, {{at::ones({2})}}), error,
                         MessageMatches(ContainsSubstring(text)));
  };
  refused(op_kind::backward, {4, 0}, "backward of microbatch 4 slice 0");
  refused(op_kind::weight_backward, {3, 0}, "of microbatch 3 slice 0 without");
  ops.forward({3, 0}, {{input()}});
  refused(op_kind::input_backward, {3, 0}, "in a step that should have none");
}

TEST_CASE("validation keeps nothing for a backward") {
  module_compute stage(tanh_sequence(), middle_stage());
  driven_stage ops(stage);
  auto settings = training_step();
  settings.phase = phase::validation;
  stage.begin_step(settings);
  const auto y = ops.forward({0, 0}, {{input()}}, {});
  CHECK_FALSE(y[0][0].requires_grad());
  CHECK(ops.left({0, 0}).context == nullptr);
  CHECK_NOTHROW(stage.end_step());
}

TEST_CASE("a model's own metrics are averaged by name") {
  struct counting final : stage_module {
    tensor_list forward(const tensor_list& inputs) override {
      report_metric("mean input", inputs[0].mean().item<double>());
      return inputs;
    }
  };
  module_compute stage(sequence_of([] { return std::make_shared<counting>(); }),
                       middle_stage());
  stage.begin_step(training_step());
  driven_stage ops(stage);
  ops.forward({0, 0}, {{at::ones({2})}}, {});
  ops.forward({1, 0}, {{at::ones({2}) * 3}}, {});
  for (const std::int32_t k : {0, 1})
    ops.backward(op_kind::backward, {k, 0}, {{at::ones({2})}});
  const auto metrics = stage.end_step().metrics;
  REQUIRE(metrics.size() == 1);
  CHECK(metrics[0].name == "mean input");
  CHECK(metrics[0].value == 2);
  CHECK(metrics[0].count == 2);
}
