// Layers that are one node together have the bits of the layers.
#include "troupe/engine/models/layers/joined_layers.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "../stage/driven_stage.hpp"
#include "troupe/engine/fused/attention_operators.hpp"
#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/layers/layer_functions.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using troupe::testing::driven_stage;

namespace {

constexpr std::int64_t width = 32, heads = 2, length = 16, blocks = 2;

struct branch_case {
  std::string name;
  decoder_options decoder{};
  troupe::numerics numerics{};
  std::vector<std::string> frozen{};  // parts of parameters' names
  bool splits = false;
};

/// GPT-2's kind of block, or with `gated` Llama's without rotary embeddings.
decoder_options options(bool gated, bool biased = true) {
  decoder_options o;
  o.vocabulary = 64;
  o.width = width;
  o.layers = blocks;
  o.heads = o.key_heads = heads;
  o.head_size = width / heads;
  o.inner = 2 * width;
  o.length = length;
  o.names.positions = "positions";
  o.names.fused = "qkv";
  o.norm =
    gated ? decoder_options::norm_kind::rms : decoder_options::norm_kind::layer;
  o.gated = gated;
  o.activation = gated ? "silu" : "gelu";
  o.query_bias = o.output_bias = o.mlp_bias = biased;
  return o;
}

/// Llama's kind: three projections, of which one key head serves two queries'.
decoder_options grouped(std::int64_t rotated) {
  auto o = options(true, false);
  o.names.fused.clear();
  o.names.positions.clear();
  o.key_heads = 1;
  o.rotary.dimensions = rotated;
  return o;
}

model model_of(const decoder_options& o) {
  return decoder(o, [fill = fresh_parameters(o, 3)](const std::string& name,
                                                    at::Tensor& parameter) {
    fill(name, parameter);
    if (parameter.dim() == 1)  // not ones and zeros alone
      parameter.add_(at::randn(parameter.sizes(),
                               at::make_generator<at::CPUGeneratorImpl>(
                                 std::hash<std::string>()(name) & 0xFFFF),
                               at::kFloat),
                     0.3);
  });
}

at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

/// Wants all that modules publish.
interest_pointer everything() {
  subscription all;
  all.tensors = module_kinds;
  return std::make_shared<tensor_interest>(std::vector{all});
}

void update(const parameter_list& parameters) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters)
    if (auto& gradient = parameter.mutable_grad(); gradient.defined()) {
      parameter.sub_(gradient, 0.1);
      gradient = at::Tensor();
    }
}

void freeze(const branch_case& what, const parameter_list& parameters) {
  for (const auto& [name, parameter] : parameters)
    for (const auto& part : what.frozen)
      if (name.find(part) != std::string::npos)
        parameter.set_requires_grad(false);
}

microbatch_data text(std::uint64_t seed) {
  const std::vector<std::int64_t> sizes{2, length};
  return {.inputs = {at::randint(64, sizes, generator(seed), at::kLong)},
          .targets = {at::randint(64, sizes, generator(seed + 1), at::kLong)}};
}

/// Two steps of three microbatches, of the whole model or of its blocks alone.
/// Returns losses, gradients of inputs and parameters.
tensor_list train(const branch_case& what, bool whole, bool observed) {
  const auto module = std::make_shared<layer_sequence>(
    model_of(what.decoder),
    whole ? layer_range{0, blocks + 2} : layer_range{1, blocks + 1});
  module->convert(what.numerics.dtypes);
  freeze(what, module->parameters_by_name());
  module_stage_options options;
  options.index = whole ? 0 : 1;
  options.numerics = what.numerics;
  std::int64_t seen = 0;
  options.publish = [&](const tensors_event& event) {
    seen += std::ssize(event.tensors);
  };
  module_compute stage(module, options);
  tensor_list result;
  for (std::int64_t step = 1; step <= 2; ++step) {
    driven_stage ops(stage);
    step_settings settings;
    settings.step = step;
    settings.splits_backward = what.splits;
    settings.microbatches = 3;
    if (observed)
      settings.interest = everything();
    stage.begin_step(settings);
    tensor_list outputs;
    for (std::int32_t k = 0; k < 3; ++k) {
      const auto seed = static_cast<std::uint64_t>(10 * step + k);
      auto x = at::randn({2, length, width}, generator(seed), at::kFloat);
      if (what.numerics.dtypes.parameters)
        x = x.to(*what.numerics.dtypes.parameters);
      const auto sent = ops.forward(
        {k, 0}, whole ? tensor_lists{} : tensor_lists{{x}}, text(seed));
      outputs.push_back(whole ? at::Tensor() : sent[0][0]);
    }
    for (std::int32_t k = 0; k < 3; ++k) {
      const auto& y = outputs[static_cast<std::size_t>(k)];
      const auto gradient =
        whole ? tensor_lists{}
              : tensor_lists{{at::randn(y.sizes(), generator(5), at::kFloat)
                                .to(y.scalar_type())}};
      const auto sent =
        ops.backward(what.splits ? op_kind::input_backward : op_kind::backward,
                     {k, 0}, gradient);
      if (!whole)
        result.push_back(sent[0][0]);
    }
    for (std::int32_t k = 0; what.splits && k < 3; ++k)
      ops.backward(op_kind::weight_backward, {k, 0});
    for (const auto& loss : stage.end_step().losses)
      result.push_back(at::full({}, loss.value, at::kDouble));
    for (const auto& [name, parameter] : module->parameters_by_name())
      result.push_back(parameter.grad());
    update(module->parameters_by_name());
  }
  CHECK((seen > 0) == observed);
  return result;
}

std::vector<branch_case> cases() {
  troupe::numerics cast, narrow, again, graph, layers;
  cast.autocast = at::kBFloat16;
  narrow.dtypes.parameters = at::kBFloat16;
  again.recompute = true;
  graph.backward_split = weight_split::graph;
  layers.backward_split = weight_split::layers;
  auto tanh = options(false), transposed = options(false), by_head = tanh;
  tanh.activation = "gelu_new";
  transposed.transposed = true;
  by_head.fused = decoder_options::fusion::heads;
  auto tied = options(true, false), dropped = options(false);
  tied.tied = true;
  dropped.dropout = {0.1, 0.1, 0.1};
  return {
    {"LayerNorm and GELU", options(false)},
    {"RMSNorm and a gate", options(true)},
    {"without biases", options(true, false)},
    {"by tanh", tanh},
    {"transposed", transposed},
    {"by head", by_head},
    {"tied", tied},
    {"dropout", dropped},
    {"autocast", options(false), cast},
    {"autocast with a gate", options(true), cast},
    {"bf16", options(false), narrow},
    {"bf16 with a gate", options(true), narrow},
    {"recompute", options(false), again},
    {"split by layers", options(false), layers, {}, true},
    {"split along the graph", options(true), graph, {}, true},
    {"rotary", grouped(16)},
    {"partly rotary, autocast", grouped(8), cast},
    {"three projections, bf16", grouped(0), narrow},
    {"rotary, bf16", grouped(16), narrow},
    {"rotary, recompute", grouped(8), again},
    {"rotary, split along the graph", grouped(16), graph, {}, true},
    {"rotary, frozen keys", grouped(16), layers, {"k_proj", "ends"}, true},
    {"frozen norms", options(false), {}, {"layernorm"}},
    {"frozen biases", options(false), {}, {"bias"}},
    {"frozen attention", options(false), {}, {"attn"}},
    {"frozen ends", options(true), {}, {"embed", "positions", "down"}},
    {"frozen in I", options(true), layers, {"input_layernorm", "up"}, true},
  };
}

}  // namespace

TEST_CASE("branches have the bits of their layers, which monitors observe") {
  for (const auto& what : cases())
    for (const bool whole : {true, false}) {
      CAPTURE(what.name, whole);
      const auto plain = train(what, whole, false);
      const auto observed = train(what, whole, true);
      REQUIRE(plain.size() == observed.size());
      for (std::size_t i = 0; i < plain.size(); ++i) {
        CAPTURE(i);
        REQUIRE(plain[i].defined() == observed[i].defined());
        if (plain[i].defined())
          CHECK(at::equal(plain[i], observed[i]));
      }
    }
}

namespace {

/// A block of `options`, by LibTorch's functions.
at::Tensor composed(const at::Tensor& x,
                    const std::map<std::string, at::Tensor>& all, bool gated) {
  const auto norm = [&](const at::Tensor& of, const std::string& name) {
    const auto& weight = all.at(name + ".weight");
    return gated ? at::rms_norm(of, weight.sizes(), weight, 1e-6)
                 : at::layer_norm(of, weight.sizes(), weight,
                                  all.at(name + ".bias"), 1e-6);
  };
  const auto linear = [&](const at::Tensor& of, const std::string& name) {
    return at::linear(of, all.at(name + ".weight"), all.at(name + ".bias"));
  };
  const auto parts = linear(norm(x, "input_layernorm"), "self_attn.qkv")
                       .view({x.size(0), x.size(1), 3, heads, width / heads})
                       .permute({2, 0, 3, 1, 4});
  const auto attended = at::scaled_dot_product_attention(
    parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
  const auto y =
    x + linear(attended.transpose(1, 2).reshape(x.sizes()), "self_attn.o_proj");
  const auto h = norm(y, "post_attention_layernorm");
  const auto inner =
    gated ? at::silu(linear(h, "mlp.gate_proj")) * linear(h, "mlp.up_proj")
          : at::gelu(linear(h, "mlp.up_proj"));
  return y + linear(inner, "mlp.down_proj");
}

/// The names of all nodes behind a tensor, parameters' aside.
std::vector<std::string> nodes_of(const at::Tensor& y) {
  std::vector<std::string> names;
  for (auto node = y.grad_fn(); node && node->num_outputs() > 0;
       node = node->next_edge(0).function) {
    names.push_back(node->name());
    if (node->next_edges().empty())
      break;
  }
  return names;
}

/// Gradients of the block of `module` and of LibTorch's in fp64.
void check_gradients(bool gated, at::ScalarType type, double tolerance) {
  layer_sequence module(model_of(options(gated)), {1, 2});
  module.convert({type});
  const auto given = at::randn({2, length, width}, generator(7), at::kDouble);
  const auto x = given.to(type).detach().requires_grad_(true);
  const auto y = module.forward({x}).at(0);
  const auto gradient = at::randn(y.sizes(), generator(8), at::kDouble);
  y.backward(gradient.to(type));

  std::map<std::string, at::Tensor> all;
  for (const auto& [name, value] : module.parameters_by_name())
    all.emplace(name.substr(name.find("layers.0.") + 9),
                value.detach().to(at::kDouble).requires_grad_(true));
  const auto x2 = x.detach().to(at::kDouble).requires_grad_(true);
  const auto y2 = composed(x2, all, gated);
  y2.backward(gradient);
  const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a.to(at::kDouble), b, tolerance, tolerance);
  };
  CHECK(close(y, y2));
  CHECK(close(x.grad(), x2.grad()));
  for (const auto& [name, value] : module.parameters_by_name()) {
    CAPTURE(name);
    CHECK(close(value.grad(),
                all.at(name.substr(name.find("layers.0.") + 9)).grad()));
  }
}

}  // namespace

TEST_CASE("a block has the gradients of LibTorch's functions") {
  for (const bool gated : {false, true}) {
    CAPTURE(gated);
    check_gradients(gated, at::kDouble, 1e-10);
    check_gradients(gated, at::kFloat, 2e-4);
  }
}

TEST_CASE("a block is two nodes of the graph, or one for each layer") {
  layer_sequence module(model_of(options(false)), {1, 2});
  const auto x =
    at::randn({1, length, width}, generator(1), at::kFloat).requires_grad_();
  for (const auto& o : {options(false), options(true), grouped(16)}) {
    layer_sequence other(model_of(o), {1, 2});
    const auto nodes = nodes_of(other.forward({x}).at(0));
    REQUIRE(nodes.size() >= 2);
    CHECK(nodes[0].find("mlp_node") != std::string::npos);
    CHECK((nodes[1].find("attention_node") != std::string::npos)
          == fused::has_attention(at::kFloat));
  }
  const auto strided =
    at::randn({length, 2, width}, generator(1), at::kFloat).transpose(0, 1);
  const auto others = nodes_of(module.forward({strided}).at(0));
  CHECK(others.front().find("AddBackward") != std::string::npos);
}

TEST_CASE("an embedding's gradient is added to its rows") {
  const auto ids = at::randint(5, {3, 4}, generator(1), at::kLong);
  const auto rows = at::randn({3, 4, 40}, generator(2), at::kFloat);
  for (const std::int64_t padding : {-1, 2})
    for (const auto type : {at::kFloat, at::kDouble}) {
      CAPTURE(padding, type);
      const auto gradient = rows.to(type);
      auto weight = at::zeros({6, 40}, type);
      add_embedding_gradient(weight, ids, gradient, padding);
      add_embedding_gradient(weight, ids, gradient.expand({3, 4, 40}), padding);
      const auto once =
        at::embedding_dense_backward(gradient, ids, 6, padding, false);
      CHECK(at::allclose(weight.grad(), once + once, 1e-5, 1e-6));
    }
}
