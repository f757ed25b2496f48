#include "troupe/engine/models/decoders/decoder.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "troupe/base/error.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/models/decoders/decoder_parts.hpp"
#include "troupe/engine/models/decoders/lora.hpp"
#include "troupe/engine/models/layers/cross_entropy_in_parts.hpp"
#include "troupe/engine/models/layers/joined_layers.hpp"
#include "troupe/engine/stage/module/slices.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

namespace {

struct folder final : torch::nn::Module {};

/// A module under a dotted name, in modules that only give their names.
template <class Module>
std::shared_ptr<Module> nest(torch::nn::Module& outer, const std::string& name,
                             const std::shared_ptr<Module>& inner) {
  const auto dot = name.find('.');
  if (dot == std::string::npos)
    return outer.register_module(name, inner);
  const auto first = name.substr(0, dot);
  for (const auto& each : outer.named_children())
    if (each.key() == first)
      return nest(*each.value(), name.substr(dot + 1), inner);
  return nest(*outer.register_module(first, std::make_shared<folder>()),
              name.substr(dot + 1), inner);
}

/// What the layers of a decoder have in common. With a router's loss they hand
/// on, behind what each computes, the sums of `take_routes` so far.
struct decoder_layer : stage_module {
  explicit decoder_layer(const decoder_options& options) : o(options) {}
  bool runs_in_slices() const override {
    const auto steady = o.rotary.steady_length();
    return !o.has_router_loss()
           && (!steady
               || (o.choices.length > 0 && o.choices.length <= *steady));
  }
  std::string why_not_in_slices() const override {
    return o.has_router_loss()
             ? "output_router_logits asks for a loss of whole microbatches"
             : "its rope scaling depends on the length of a sequence";
  }

  /// The argument `document_starts` where it is to be read; else undefined.
  at::Tensor starts_among(const tensor_arguments& arguments) const {
    const auto found = arguments.find(document_starts);
    return o.choices.documents && found != arguments.end() ? found->second
                                                           : at::Tensor();
  }

  decoder_options o;
};

struct embeddings final : decoder_layer {
  embeddings(const decoder_options& options, const at::TensorOptions& kind)
    : decoder_layer(options),
      tokens(nest(*this, o.names.tokens,
                  std::make_shared<embedding_layer>(o.vocabulary, o.width, kind,
                                                    o.padding))) {
    if (!o.names.positions.empty())
      positions =
        nest(*this, o.names.positions,
             std::make_shared<embedding_layer>(o.length, o.width, kind));
  }

  bool reads_arguments() const override {
    return positions && o.choices.documents;
  }

  tensor_list forward(const tensor_list& inputs) override {
    return forward(inputs, {});
  }

  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override {
    const auto& ids = inputs.at(0);
    const auto x =
      positions ? with_positions(ids, arguments) : observe(tokens, ids);
    tensor_list outputs{dropout(x, o.dropout.embedding)};
    if (o.has_router_loss())
      outputs.push_back(
        at::zeros({2, o.experts.count}, ids.options().dtype(at::kFloat)));
    return outputs;
  }

  at::Tensor with_positions(const at::Tensor& ids,
                            const tensor_arguments& arguments) {
    const auto first = current_slice().first;
    auto places =
      at::arange(first, first + ids.size(1), ids.options().dtype(at::kLong));
    // Those within a document.
    if (const auto starts = starts_among(arguments); starts.defined())
      places = places - starts;
    if (const auto sum = sum_of_embeddings(*tokens, ids, *positions, places);
        sum.defined())
      return sum;
    const auto x = observe(tokens, ids);
    return x + observe(positions, places);
  }

  std::shared_ptr<embedding_layer> tokens, positions;
};

struct block final : decoder_layer {
  block(const decoder_options& options, std::size_t layer,
        const at::TensorOptions& kind)
    : decoder_layer(options),
      first_norm(
        register_module(o.names.first_norm, make_norm(o, o.width, kind))),
      attention(
        register_module(o.names.attention, make_attention(o, layer, kind))),
      second_norm(
        register_module(o.names.second_norm, make_norm(o, o.width, kind))),
      mlp(register_module(o.names.mlp, has_experts(layer)
                                         ? make_experts(o, kind)
                                         : make_dense_mlp(o, kind))) {}

  bool reads_arguments() const override { return o.choices.documents; }

  tensor_list forward(const tensor_list& inputs) override {
    return forward(inputs, {});
  }

  /// In generation there are no arguments.
  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override {
    const auto starts = starts_among(arguments);
    if (o.has_router_loss()) {
      tensor_list outputs{compute(inputs.at(0), starts), inputs.at(1)};
      if (const auto routes = mlp->take_routes(); routes.defined())
        outputs[1] = outputs[1] + routes;
      return outputs;
    }
    auto x = inputs.at(0);
    for (std::size_t i = 1; i < inputs.size(); ++i)
      x = x + inputs[i];
    return {compute(x, starts)};
  }

  at::Tensor compute(const at::Tensor& x, const at::Tensor& starts) {
    using enum decoder_options::norm_place;
    const auto dropped = [this](const at::Tensor& added) {
      return dropout(added, o.dropout.residual);
    };
    if (o.place == after) {
      const auto y = x + dropped(observe(first_norm, attend(x, starts)));
      return y + dropped(observe(second_norm, observe(mlp, y)));
    }
    if (o.place == parallel) {
      const auto attended = dropped(attend(observe(first_norm, x), starts));
      return dropped(observe(mlp, observe(second_norm, x))) + attended + x;
    }
    const bool drops = o.dropout.residual > 0 && current_draws();
    auto y = drops ? at::Tensor() : attention->branch(x, *first_norm, starts);
    if (!y.defined())
      y = x + dropped(attend(observe(first_norm, x), starts));
    auto z = drops ? at::Tensor() : mlp->branch(y, *second_norm);
    if (!z.defined())
      z = y + dropped(observe(mlp, observe(second_norm, y)));
    return z;
  }

  at::Tensor attend(const at::Tensor& x, const at::Tensor& starts) {
    return starts.defined() ? observe(attention, x, starts)
                            : observe(attention, x);
  }

  bool has_experts(std::size_t layer) const {
    return o.experts.count > 0 && o.experts.layers.at(layer);
  }

  std::shared_ptr<norm_layer> first_norm;
  std::shared_ptr<decoder_attention> attention;
  std::shared_ptr<norm_layer> second_norm;
  std::shared_ptr<decoder_mlp> mlp;
};

struct head_layer final : decoder_layer {
  head_layer(const decoder_options& options, const at::TensorOptions& kind)
    : decoder_layer(options),
      norm(nest(*this, o.names.last_norm, make_norm(o, o.width, kind))),
      head(nest(*this, o.names.head,
                std::make_shared<linear_layer>(
                  o.width, o.vocabulary, linear_options{kind, o.head_bias}))) {}

  tensor_list forward(const tensor_list& inputs) override {
    const auto joined = norm_with_linear(inputs.at(0), *norm, *head);
    return {joined.defined() ? joined
                             : observe(head, observe(norm, inputs.at(0)))};
  }

  std::optional<std::vector<loss_term>> losses(
    const tensor_list& inputs, const microbatch_data& data) override {
    const auto& x = inputs.at(0);
    const auto most =
      o.choices.loss_positions > 0
        ? o.choices.loss_positions
        : std::max((std::int64_t{1} << (x.is_cpu() ? 23 : 26)) / o.vocabulary,
                   std::int64_t{1});
    const bool in_parts = x.size(0) * x.size(1) > most;
    if ((!in_parts && !o.has_router_loss()) || data.targets.empty()
        || o.head_bias)
      return std::nullopt;
    std::vector terms{cross_entropy_in_parts(head->factors(observe(norm, x)),
                                             data.targets.at(0), most)};
    if (o.has_router_loss())
      terms.push_back(router_loss(inputs.at(1), x.size(0) * x.size(1)));
    return terms;
  }

  bool adds_losses() const override { return o.has_router_loss(); }

  /// The balance of experts of the Switch Transformer (Fedus et al., 2022),
  /// over the tokens of all layers together: of each microbatch, whose values
  /// steps average with equal weights.
  loss_term router_loss(const at::Tensor& routes, std::int64_t tokens) const {
    const auto routers = std::ranges::count(o.experts.layers, true);
    const auto choices = static_cast<double>(tokens * routers);
    const auto shares = routes / choices;
    const auto experts = static_cast<double>(o.experts.count);
    return {"router_loss",
            (shares[0] * shares[1]).sum() * (o.experts.balance * experts)};
  }

  std::shared_ptr<norm_layer> norm;
  std::shared_ptr<linear_layer> head;
};

}  // namespace

void require_legal(const decoder_options& o) {
  const auto require = [](bool holds, const char* what) {
    if (!holds)
      throw error(error_code::invalid_argument, what);
  };
  require(o.vocabulary > 0 && o.width > 0 && o.layers > 0 && o.heads > 0
            && o.key_heads > 0 && o.head_size > 0 && o.inner > 0,
          "the sizes of a decoder must be at least 1");
  // Far beyond all models, so that no product of sizes overflows and no list of
  // modules fills the memory.
  constexpr std::int64_t most = 1 << 24, most_modules = 1 << 16;
  require(o.vocabulary <= most && o.width <= most && o.head_size <= most
            && o.heads <= (most << 12) / o.head_size && o.inner <= most
            && o.experts.inner <= most && o.length <= most,
          "the sizes of a decoder are too large");
  require(
    o.layers <= most_modules && o.experts.count <= most_modules / o.layers,
    "a decoder has at most 65,536 blocks, or experts in all of them");
  require(o.heads % o.key_heads == 0,
          "attention heads must be a multiple of the key and value heads");
  require(o.rotary.dimensions >= 0
            && (o.rotary.dimensions + 1) / 2 * 2 <= o.head_size,
          "there are more rotated dimensions than a head has");
  require(o.names.positions.empty() || o.length > 0,
          "learned positions need the length of the longest sequence");
  require_activation(o.activation);
}

namespace {

bool ends_with(const std::string& name, const std::string& module) {
  return name.ends_with("." + module + ".weight");
}

}  // namespace

model decoder(const decoder_options& options, const parameter_filler& fill,
              const at::TensorOptions& kind) {
  auto o = options;
  const auto layers = static_cast<std::size_t>(o.layers);
  require_legal(o);
  if (o.scales.empty())
    o.scales.assign(layers, 1 / std::sqrt(static_cast<double>(o.head_size)));
  // A merged adapter of a tied head would be the embeddings', too, and one of
  // another name than transformers' module has would not be found.
  const auto plain = o.tied || o.names.head != decoder_names{}.head
                       ? o.names.head
                       : std::string();
  const auto filled = [lora = o.choices.lora, plain](
                        const std::string& layer, auto module,
                        const parameter_filler& filler) {
    const at::NoGradGuard no_grad;
    if (filler)
      for (auto& each : module->named_parameters())
        filler(dotted_name(layer, each.key()), each.value());
    add_adapters(*module, layer, lora, plain);
    return module;
  };
  model result;
  const auto add = [&](const std::string& name, const auto& construct) {
    result.push_back(
      {.name = name,
       .make = [=] { return filled(name, construct(kind), fill); },
       .make_on_meta =
         [=] {
           return filled(name, construct(kind.device(at::kMeta)), nullptr);
         }});
  };
  // One for all: it has lists with an entry for each layer.
  const auto all = std::make_shared<const decoder_options>(o);
  add("", [all](const at::TensorOptions& of) {
    return std::make_shared<embeddings>(*all, of);
  });
  for (std::size_t i = 0; i < layers; ++i)
    add(fmt::format("{}.{}", o.names.blocks, i),
        [all, i](const at::TensorOptions& of) {
          return std::make_shared<block>(*all, i, of);
        });
  add("", [all](const at::TensorOptions& of) {
    return std::make_shared<head_layer>(*all, of);
  });
  if (o.tied)
    result.back().ties = {
      {o.names.head + ".weight", o.names.tokens + ".weight"}};
  return result;
}

parameter_filler fresh_parameters(const decoder_options& options,
                                  std::uint64_t seed) {
  return [o = options, seed](const std::string& name, at::Tensor& parameter) {
    if (parameter.dim() == 1) {
      parameter.fill_(name.ends_with(".weight") ? 1 : 0);
      return;
    }
    // The tied head draws as its owner does.
    const bool is_head = o.tied && name == o.names.head + ".weight";
    const auto& drawn = is_head ? o.names.tokens + ".weight" : name;
    const bool residual =
      ends_with(name, o.names.output) || ends_with(name, o.names.down);
    parameter.normal_(0.0, residual ? o.residual_deviation : o.deviation,
                      generator_of(drawn, seed));
    if (o.padding >= 0 && o.padding < o.vocabulary
        && drawn == o.names.tokens + ".weight")
      parameter.select(0, o.padding).zero_();
  };
}

}  // namespace troupe
