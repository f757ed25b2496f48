// Layers that are one node together have the bits of the layers, and monitors
// see the same of them.
#include "troupe/engine/models/layers/joined_layers.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "../libtorch_warnings.hpp"
#include "../stage/driven_stage.hpp"
#include "small_decoders.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/models/layers/layer_functions.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using namespace troupe::testing::small_decoders;
using troupe::testing::driven_stage;

namespace {

struct branch_case {
  std::string name;
  decoder_options decoder{};
  troupe::numerics numerics{};
  std::vector<std::string> frozen{};  // parts of parameters' names
  bool splits = false;
};

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

/// What a monitor is shown of each tensor, in order.
class seen_tensors {
 public:
  void add(const tensors_event& event) {
    for (const auto& each : event.tensors) {
      const auto& s = each.statistics;
      lines_.push_back(fmt::format(
        "{} {}{} microbatch {} {} {}, call {}, {} of {}: {} {:a} {:a} {:a}",
        event.source.step, event.backward ? "backward" : "forward",
        event.reading == step_reading::once ? "" : " again",
        event.source.microbatch, each.owner->name, part_text(each), each.call,
        at::toString(each.dtype), each.dimensions, s.count, s.mean,
        s.variance(), s.max_abs));
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

struct training {
  tensor_list tensors;  // losses, gradients of inputs and parameters
  seen_tensors seen;
};

/// Two steps of three microbatches, of the whole model or of its blocks alone.
training train(const branch_case& what, bool whole, bool observed) {
  const auto module = std::make_shared<layer_sequence>(
    model_of(what.decoder),
    whole ? layer_range{0, blocks + 2} : layer_range{1, blocks + 1});
  module->convert(what.numerics.dtypes);
  freeze(what, module->parameters_by_name());
  module_stage_options options;
  options.index = whole ? 0 : 1;
  options.numerics = what.numerics;
  seen_tensors seen;
  options.publish = [&](const tensors_event& event) { seen.add(event); };
  module_compute stage(module, options);
  tensor_list result;
  const testing::libtorch_warnings warnings;
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
  CHECK(warnings.text() == "");
  return {result, seen};
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
  auto by_relu = options(true);
  by_relu.activation = "relu";
  auto normed = grouped(16);
  normed.query_norms = decoder_options::query_norm::head;
  dropped.dropout = {0.1, 0.1, 0.1};
  return {
    {"LayerNorm and GELU", options(false)},
    {"RMSNorm and a gate", options(true)},
    {"without biases", options(true, false)},
    {"by tanh", tanh},
    {"transposed", transposed},
    {"by head", by_head},
    {"tied", tied},
    {"attention alone is a node", by_relu},
    {"the MLP alone is a node", normed},
    {"the MLP alone is a node, autocast", normed, cast},
    {"attention alone is a node, bf16", by_relu, narrow},
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

void check_equal(const tensor_list& tensors, const tensor_list& others) {
  REQUIRE(tensors.size() == others.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(i);
    REQUIRE(tensors[i].defined() == others[i].defined());
    if (tensors[i].defined())
      CHECK(at::equal(tensors[i], others[i]));
  }
}

/// Dropout that drops nothing, with which a block's layers are called one by
/// one.
branch_case apart(branch_case what) {
  what.decoder.dropout.residual = 1e-12;
  return what;
}

}  // namespace

TEST_CASE("branches have the bits of their layers") {
  for (const auto& what : cases())
    for (const bool whole : {true, false}) {
      CAPTURE(what.name, whole);
      const auto plain = train(what, whole, false);
      const auto observed = train(what, whole, true);
      CHECK(plain.seen.lines().empty());
      check_equal(plain.tensors, observed.tensors);
      if (what.decoder.dropout.residual > 0)
        continue;
      const auto layers = train(apart(what), whole, true);
      check_equal(plain.tensors, layers.tensors);
      CHECK_FALSE(layers.seen.lines().empty());
      CHECK(observed.seen.lines() == layers.seen.lines());
    }
}

namespace {

/// The layers of a decoder's ends.
struct ends {
  std::shared_ptr<embedding_layer> tokens =
    std::make_shared<embedding_layer>(9, width);
  std::shared_ptr<embedding_layer> positions =
    std::make_shared<embedding_layer>(length, width);
  std::shared_ptr<norm_layer> norm = std::make_shared<norm_layer>(width);
  std::shared_ptr<linear_layer> head = std::make_shared<linear_layer>(width, 9);

  ends() {
    const at::NoGradGuard no_grad;
    tokens->weight.normal_(0, 1, generator(1));
    positions->weight.normal_(0, 1, generator(2));
    norm->weight.normal_(0, 1, generator(3));
    head->fill(1, generator(4));
  }

  at::Tensor embed(const at::Tensor& ids, const at::Tensor& places,
                   bool joined) {
    if (joined)
      return sum_of_embeddings(*tokens, ids, *positions, places);
    const auto x = observe(tokens, ids);
    return x + observe(positions, places);
  }
  at::Tensor logits(const at::Tensor& x, bool joined) {
    return joined ? norm_with_linear(x, *norm, *head)
                  : observe(head, observe(norm, x));
  }

  std::vector<std::string> seen(bool joined) {
    seen_tensors seen;
    observer eyes({{tokens.get(), "tokens"},
                   {positions.get(), "positions"},
                   {norm.get(), "norm"},
                   {head.get(), "head"}},
                  {}, [&](const tensors_event& event) { seen.add(event); });
    eyes.begin_step(everything());
    eyes.begin_op({}, observer::pass::forward, 1);
    at::Tensor loss;
    {
      const observer_scope scope(&eyes);
      const auto ids = at::randint(9, {2, length}, generator(5), at::kLong);
      const auto places = at::arange(length, at::kLong);
      loss = logits(embed(ids, places, joined), joined).square().sum();
    }
    eyes.end_op();
    eyes.begin_op({}, observer::pass::backward, 1);
    loss.backward();
    eyes.end_op();
    return seen.lines();
  }
};

}  // namespace

TEST_CASE("embeddings and the head show monitors the same as their layers") {
  for (const bool frozen : {false, true}) {
    ends layers;
    layers.tokens->weight.set_requires_grad(!frozen);
    layers.norm->weight.set_requires_grad(!frozen);
    const auto apart = layers.seen(false);
    CHECK(apart.size() > 8);
    CHECK(layers.seen(true) == apart);
  }
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
