// The gradients of layers that are one node together.
#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/function.h>
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <string>
#include <vector>

#include "small_decoders.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/fused/attention_operators.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

using namespace troupe;
using namespace troupe::testing::small_decoders;

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
  const auto exact = at::randn({2, length, width}, generator(7), at::kDouble);
  const auto x = exact.to(type).detach().requires_grad_(true);
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
  observer eyes(module.modules_by_name(), {}, [](tensors_event) {});
  subscription all;
  all.tensors = module_kinds;
  eyes.begin_step(std::make_shared<tensor_interest>(std::vector{all}));
  eyes.begin_op({}, observer::pass::forward, 1);
  {
    const observer_scope scope(&eyes);
    REQUIRE(watching_observer() == &eyes);
    CHECK(nodes_of(module.forward({x}).at(0))[0].find("mlp_node")
          != std::string::npos);
  }
  const auto strided =
    at::randn({length, 2, width}, generator(1), at::kFloat).transpose(0, 1);
  const auto others = nodes_of(module.forward({strided}).at(0));
  CHECK(others.front().find("AddBackward") != std::string::npos);
}
