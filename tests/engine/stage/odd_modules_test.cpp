// Adversarial modules: a split backward equals the full one, and returns
// tensors that nothing else changes.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "driven_stage.hpp"
#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using troupe::testing::driven_stage;

namespace {

constexpr std::int64_t rows = 4, columns = 6;

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed),
                   at::kFloat);
}

/// A module whose forward is a function of its parameters and its layer.
struct odd_module final : stage_module {
  using function = tensor_list (*)(odd_module&, const tensor_list&);

  odd_module(function body, void (*prepare)(odd_module&)) : body_(body) {
    layer->fill(0.5, at::make_generator<at::CPUGeneratorImpl>(1));
    if (prepare)
      prepare(*this);
  }

  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    return body_(*this, inputs);
  }

  std::shared_ptr<linear_layer> layer =
    register_module("layer", std::make_shared<linear_layer>(columns, columns));
  at::Tensor square =
    register_parameter("square", random({columns, columns}, 2));
  at::Tensor flat = register_parameter("flat", random({rows * columns}, 3));
  at::Tensor row = register_parameter("row", random({columns}, 4));

 private:
  function body_;
};

/// x^2 w, whose backward computes all gradients that it can.
struct squares final : torch::autograd::Function<squares> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x, w});
    return x * x * w;
  }
  static tensor_list backward(torch::autograd::AutogradContext* context,
                              const tensor_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {2 * gradients[0] * saved[0] * saved[1],
            (gradients[0] * saved[0] * saved[0]).sum(0)};
  }
};

/// x w, which leaves the gradient of w to the store.
struct scaling final : torch::autograd::Function<scaling> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& w) {
    note_store(*context, {w});
    context->save_for_backward({x, w});
    return x * w;
  }
  static tensor_list backward(torch::autograd::AutogradContext* context,
                              const tensor_list& gradients) {
    const auto saved = context->get_saved_variables();
    add_weight_gradients(*context,
                         [x = saved[0], w = saved[1], gradient = gradients[0]] {
                           accumulate_gradient(w, (gradient * x).sum(0));
                         });
    return {gradients[0] * saved[1], {}};
  }
};

struct odd_case {
  const char* name;
  odd_module::function body;
  void (*prepare)(odd_module&) = nullptr;
};

const std::vector<odd_case> odd_cases = {
  {"the input's gradient is that of a view of a parameter",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {in[0] + m.flat.view({rows, columns}), in[1]};
   }},
  {"inputs share a gradient",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {in[0] + in[1] + m.row, in[2] + 1};
   }},
  {"inputs are outputs, twice",
   [](odd_module&, const tensor_list& in) -> tensor_list {
     return {in[0], in[0], in[1] * 2};
   }},
  {"hooks on parameters",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {at::tanh(at::linear(in[0], m.square, m.row)) * in[1]};
   },
   [](odd_module& m) {
     m.square.register_hook([](const at::Tensor& g) { return g * 3; });
     m.row.register_hook([](const at::Tensor& g) { return g + 1; });
   }},
  {"a layer of ours on the way to the inputs and off it",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     const auto aside = m.layer->forward(at::ones({rows, columns}));
     const auto x = m.layer->forward(at::linear(in[0], m.square));
     return {x * m.row, m.layer->forward(aside * m.row)};
   }},
  {"a layer of ours on a parameter",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     const auto weight = m.layer->forward(m.square);
     return {at::linear(m.layer->forward(in[0]), weight)};
   }},
  {"in place",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     auto x = at::linear(in[0], m.square);
     x.add_(m.row);
     x.narrow(1, 0, 3).mul_(m.row.narrow(0, 0, 3));
     x.select(0, 1).copy_(m.row);
     return {x + in[1], x.add_(1)};
   }},
  {"views as outputs",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     const auto x = at::linear(in[0], m.square);
     return {x.t(), x.narrow(1, 1, 2), in[1].select(0, 0).expand({3, columns}),
             m.row.expand({2, columns})};
   }},
  {"a function of its own",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {squares::apply(m.layer->forward(in[0]), m.row), in[1]};
   }},
  {"a function of its own that uses the store",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {scaling::apply(at::linear(in[0], m.square), m.row), in[1]};
   }},
  {"some parameters are frozen",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {at::linear(m.layer->forward(in[0]), m.square, m.row)};
   },
   [](odd_module& m) {
     m.layer->weight.requires_grad_(false);
     m.square.requires_grad_(false);
   }},
  {"all parameters are frozen",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {at::linear(m.layer->forward(in[0]), m.square, m.row)};
   },
   [](odd_module& m) {
     for (auto& each : m.parameters())
       each.requires_grad_(false);
   }},
  {"nothing depends on the inputs",
   [](odd_module& m, const tensor_list&) -> tensor_list {
     return {m.layer->forward(at::ones({rows, columns})) * m.row,
             at::arange(3)};
   }},
  {"nothing depends on parameters",
   [](odd_module&, const tensor_list& in) -> tensor_list {
     return {at::tanh(in[0]), at::arange(3), in[1].detach()};
   }},
  {"outputs of layers that nobody reads",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     auto x = in[0];
     for (int i = 0; i < 8; ++i) {
       m.layer->forward(
         x);  // the next graph node may get the address of this one
       x = at::tanh(at::linear(x, m.square, m.row));
     }
     return {m.layer->forward(x)};
   }},
  {"integers, and outputs without a gradient",
   [](odd_module& m, const tensor_list& in) -> tensor_list {
     return {at::arange(3), m.layer->forward(in[0]) * m.row,
             at::zeros_like(in[1]), at::Tensor{}};
   }},
};

std::shared_ptr<layer_sequence> middle_stage(const odd_case& what) {
  const auto make = [&what] {
    return std::make_shared<odd_module>(what.body, what.prepare);
  };
  const model layers{{"before", make}, {"layer", make}, {"behind", make}};
  return std::make_shared<layer_sequence>(layers, layer_range{1, 2});
}

tensor_list random_inputs(std::uint64_t seed) {
  tensor_list inputs;
  for (std::uint64_t i = 0; i < 3; ++i)
    inputs.push_back(random({rows, columns}, 10 * seed + i));
  return inputs;
}

/// Gradients as from other stages, in memory of their own.
tensor_list gradients_for(const tensor_list& outputs) {
  tensor_list gradients;
  for (const auto& each : outputs)
    gradients.push_back(each.defined() && each.is_floating_point()
                          ? random(each.sizes(), 7)
                          : at::Tensor{});
  return gradients;
}

/// The gradients of inputs by microbatch, then those of parameters. `order`:
/// how many I precede their W.
tensor_list gradients_of(const odd_case& what, weight_split split, int lag,
                         bool recompute) {
  module_stage_options options;
  options.index = 1;
  options.numerics.optimizer = sgd{};
  options.numerics.backward_split = split;
  options.numerics.recompute = recompute;
  const auto module = middle_stage(what);
  module_compute stage(module, options);
  driven_stage ops(stage);
  step_settings settings;
  settings.splits_backward = lag >= 0;
  stage.begin_step(settings);
  constexpr std::int32_t microbatches = 4;
  tensor_lists outputs;
  for (std::int32_t k = 0; k < microbatches; ++k)
    outputs.push_back(
      ops.forward({k, 0}, {random_inputs(std::uint64_t(k))})[0]);
  tensor_list gradients_so_far;
  const auto run_weights = [&](std::int32_t k) {
    if (lag >= 0 && k >= 0 && k < microbatches)
      ops.backward(op_kind::weight_backward, {k, 0});
  };
  for (std::int32_t k = 0; k < microbatches; ++k) {
    auto gradients =
      ops.backward(lag < 0 ? op_kind::backward : op_kind::input_backward,
                   {k, 0}, {gradients_for(outputs[std::size_t(k)])})[0];
    gradients_so_far.insert(gradients_so_far.end(), gradients.begin(),
                            gradients.end());
    run_weights(k - lag);
  }
  for (std::int32_t k = microbatches - lag; k < microbatches; ++k)
    run_weights(k);
  for (const auto& [name, parameter] : module->parameters_by_name())
    gradients_so_far.push_back(parameter.grad());
  return gradients_so_far;
}

}  // namespace

TEST_CASE("a split backward is the full one for odd modules, too") {
  const auto split = GENERATE(weight_split::layers, weight_split::graph);
  const auto recompute = GENERATE(false, true);
  const auto lag = GENERATE(0, 1, 4);
  for (const auto& what : odd_cases) {
    INFO(what.name << ", lag " << lag << ", split "
                   << (split == weight_split::graph ? "graph" : "layers"));
    const auto whole = gradients_of(what, split, -1, recompute);
    const auto parts = gradients_of(what, split, lag, recompute);
    REQUIRE(whole.size() == parts.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CAPTURE(i);
      REQUIRE(whole[i].defined() == parts[i].defined());
      if (whole[i].defined())
        CHECK(at::equal(whole[i], parts[i]));
    }
  }
}

TEST_CASE("gradients of inputs have memory of their own") {
  const auto split = GENERATE(weight_split::layers, weight_split::graph);
  const auto kind = GENERATE(op_kind::backward, op_kind::input_backward);
  for (const auto& what : odd_cases) {
    CAPTURE(what.name);
    module_stage_options options;
    options.index = 1;
    options.numerics.optimizer = sgd{};
    options.numerics.backward_split = split;
    module_compute stage(middle_stage(what), options);
    driven_stage ops(stage);
    step_settings settings;
    settings.splits_backward = true;
    stage.begin_step(settings);
    const auto outputs = ops.forward({0, 0}, {random_inputs(1)})[0];
    const auto of_outputs = gradients_for(outputs);
    auto others = of_outputs;
    const auto of_inputs = ops.backward(kind, {0, 0}, {of_outputs})[0];
    for (const auto& gradient : of_inputs)
      if (gradient.defined()) {
        for (const auto& other : others)
          CHECK_FALSE((other.defined() && other.is_alias_of(gradient)));
        others.push_back(gradient);
      }
  }
}

namespace {

/// The storage of a tensor between the layers of `between_layers`.
c10::weak_intrusive_ptr<c10::StorageImpl>& inner_memory() {
  static c10::weak_intrusive_ptr<c10::StorageImpl> memory{
    c10::intrusive_ptr<c10::StorageImpl>()};
  return memory;
}

/// What tanh keeps is neither read for a parameter's gradient nor an output.
tensor_list between_layers(odd_module& m, const tensor_list& in) {
  const auto x = at::tanh(m.layer->forward(in[0]));
  inner_memory() = x.storage().getWeakStorageImpl();
  return {at::linear(at::sin(x), m.square) + in[1]};
}

/// The same before a layer of ours, which reads its sine in W.
tensor_list before_layer(odd_module& m, const tensor_list& in) {
  const auto x = at::tanh(in[0] + m.row);
  inner_memory() = x.storage().getWeakStorageImpl();
  return {at::linear(m.layer->forward(at::sin(x)), m.square)};
}

}  // namespace

TEST_CASE("an input backward frees what the weight backward does not need") {
  const auto split = GENERATE(weight_split::layers, weight_split::graph);
  for (const auto body : {between_layers, before_layer}) {
    CAPTURE(body == before_layer, split == weight_split::graph);
    module_stage_options options;
    options.index = 1;
    options.numerics.optimizer = sgd{};
    options.numerics.backward_split = split;
    const odd_case what{"frees", body};
    module_compute stage(middle_stage(what), options);
    driven_stage ops(stage);
    step_settings settings;
    settings.splits_backward = true;
    stage.begin_step(settings);
    const auto outputs = ops.forward({0, 0}, {random_inputs(1)})[0];
    CHECK_FALSE(inner_memory().expired());
    ops.backward(op_kind::input_backward, {0, 0}, {gradients_for(outputs)});
    CHECK(inner_memory().expired());
    ops.backward(op_kind::weight_backward, {0, 0});
  }
}
