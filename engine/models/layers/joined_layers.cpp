#include "troupe/engine/models/layers/joined_layers.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/add.h>

#include <vector>

#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/models/layers/joined_node.hpp"

namespace troupe {

namespace {

struct norm_linear_node final : joined_node {
  /// Sets `between` to the norm's output.
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const linear_layer& layer, at::Tensor& between) {
    const auto y = norm.run(*this, first, x);
    between = y.shown;
    return linear.run(*this, y.value, layer.as_parameters());
  }

  at::Tensor backward(at::Tensor gradient) override {
    auto sizes = gradient.sizes().vec();
    const auto of_norm = linear.backward(
      *this, gradient.reshape({-1, gradient.size(-1)}), norm.is_wanted(*this));
    if (!of_norm.defined())
      return {};
    sizes.back() = of_norm.size(-1);
    return norm.backward(*this, of_norm.view(sizes));
  }

  joined_norm norm;
  linear_part linear;
};

struct embeddings_node final : joined_node {
  at::Tensor forward(const embedding_layer& token_layer, const at::Tensor& ids,
                     const embedding_layer& position_layer,
                     const at::Tensor& places) {
    tokens = &token_layer;
    positions = &position_layer;
    const auto y = first.run(*this, ids, token_layer);
    publish(token_layer, ids, y);
    const auto z = second.run(*this, places, position_layer);
    publish(position_layer, places, z);
    places_ = z.sizes().vec();
    return at::add(y, z);
  }

  at::Tensor backward(at::Tensor gradient) override {
    if (second.trains) {
      const auto sum = at::sum_to(gradient, places_);
      publish_gradient(*positions, sum);
      second.backward(*this, sum);
    }
    if (first.trains) {
      publish_gradient(*tokens, gradient);
      first.backward(*this, gradient);
    }
    return {};
  }

  embedding_part first, second;
  const embedding_layer *tokens = nullptr, *positions = nullptr;

 private:
  std::vector<std::int64_t> places_;
};

}  // namespace

at::Tensor norm_with_linear(const at::Tensor& x, const norm_layer& norm,
                            const linear_layer& layer) {
  at::Tensor between;
  auto y = joined<norm_linear_node>(x, norm, {&layer}, [&](auto& node) {
    return node.forward(x, norm, layer, between);
  });
  // Here, and not in the node: hooks on its output run before those of callers.
  if (y.defined() && is_observed())
    observe_call(layer, {{between, tensor_content::tensor, 0}}, {{y}});
  return y;
}

at::Tensor sum_of_embeddings(const embedding_layer& tokens,
                             const at::Tensor& ids,
                             const embedding_layer& positions,
                             const at::Tensor& places) {
  const tensor_list parameters{tokens.weight, positions.weight};
  if (!joins(ids, parameters))
    return {};
  return with_node<embeddings_node>(
    ids, leaf_of(ids, parameters), [&](embeddings_node& node) {
      return node.forward(tokens, ids, positions, places);
    });
}

}  // namespace troupe
