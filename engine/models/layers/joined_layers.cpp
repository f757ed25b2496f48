#include "troupe/engine/models/layers/joined_layers.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/engine/fused/attention_operators.hpp"
#include "troupe/engine/fused/rotary.hpp"
#include "troupe/engine/models/layers/layer_node.hpp"
#include "troupe/engine/stage/module/autocast.hpp"

namespace troupe {

namespace {

using layer_list = std::vector<const linear_layer*>;  // null: none

tensor_list parameters_of(const norm_layer& norm, const layer_list& layers) {
  tensor_list all{norm.weight, norm.bias};
  for (const auto* each : layers)
    if (each)
      all.push_back(each->weight);
  return all;
}

/// A parameter to which the node needs an edge. LibTorch's engine adds nothing
/// to these, so that none is needed for the order of sums; but a split backward
/// asks it for gradients at leaves, and it runs only nodes that lead to one.
tensor_list leaf_of(const at::Tensor& x, const tensor_list& parameters) {
  if (x.requires_grad() && !current_store())
    return {};
  const auto found = std::ranges::find_if(parameters, requires_gradient);
  return found == parameters.end() ? tensor_list{} : tensor_list{*found};
}

/// Whether layers may be one node, and there is anything to train.
bool joins(const at::Tensor& x, const tensor_list& parameters) {
  return at::GradMode::is_enabled() && !is_observed()
         && (x.is_cpu() || x.is_cuda())
         && (x.requires_grad()
             || std::ranges::any_of(parameters, requires_gradient));
}

bool is_part(const linear_layer* layer) {
  return !layer || (!layer->has_adapter() && layer->trains_as_one());
}

/// forward(node) of a norm of x and linear layers, or undefined.
template <class LayerNode, class Forward>
at::Tensor joined(const at::Tensor& x, const norm_layer& norm,
                  const layer_list& layers, const Forward& forward) {
  const auto parameters = parameters_of(norm, layers);
  const bool joined = joins(x, parameters) && x.dim() == 3 && x.is_contiguous()
                      && normalizes(x, norm.as_parameters())
                      && std::ranges::all_of(layers, is_part);
  return joined ? with_node<LayerNode>(x, leaf_of(x, parameters), forward)
                : at::Tensor();
}

at::Tensor rows_of(const at::Tensor& x) {
  return x.view({-1, x.size(-1)});
}

struct norm_linear_node final : layer_node {
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const linear_layer& layer) {
    return linear.run(
      *this, norm.run(*this, x, first.as_parameters(), compute_type(x)),
      layer.as_parameters());
  }

  at::Tensor backward(at::Tensor gradient) override {
    auto sizes = gradient.sizes().vec();
    const auto of_norm =
      linear.backward(*this, gradient.reshape({-1, gradient.size(-1)}),
                      norm.trains || wants_input());
    if (!of_norm.defined())
      return {};
    sizes.back() = of_norm.size(-1);
    return norm.backward(*this, of_norm.view(sizes));
  }

  norm_part norm;
  linear_part linear;
};

struct embeddings_node final : layer_node {
  at::Tensor forward(const embedding_layer& tokens, const at::Tensor& ids,
                     const embedding_layer& positions,
                     const at::Tensor& places) {
    const auto y = first.run(*this, ids, tokens);
    const auto z = second.run(*this, places, positions);
    places_ = z.sizes().vec();
    return at::add(y, z);
  }

  at::Tensor backward(at::Tensor gradient) override {
    if (second.trains)
      second.backward(*this, at::sum_to(gradient, places_));
    if (first.trains)
      first.backward(*this, gradient);
    return {};
  }

  embedding_part first, second;

 private:
  std::vector<std::int64_t> places_;
};

/// Begins with a norm, and ends with a linear layer.
struct branch_node : layer_node {
  at::Tensor normalised(const at::Tensor& x, const norm_layer& layer) {
    type_ = x.scalar_type();
    return norm.run(*this, x, layer.as_parameters(), compute_type(x));
  }
  /// x + last(y)
  at::Tensor added(const at::Tensor& x, const at::Tensor& y,
                   const linear_layer& layer) {
    last_type_ = compute_type(y);
    auto z = last.run(*this, y, layer.as_parameters());
    return z.scalar_type() == type_ ? z.add_(x) : at::add(x, z);
  }

  /// The gradient of the last layer's input, by rows.
  at::Tensor before_last(const at::Tensor& gradient, bool wanted) {
    return last.backward(
      *this, gradient.to(last_type_).reshape({-1, gradient.size(-1)}), wanted);
  }
  bool wants_norm() const { return norm.trains || wants_input(); }
  /// That of x, from that of the branch and that of the norm's output, which
  /// sums up here.
  at::Tensor before_norm(const at::Tensor& gradient,
                         const at::Tensor& of_output) {
    return norm.backward(*this, of_output.view(gradient.sizes()),
                         wants_input() ? gradient.to(type_) : at::Tensor());
  }

  /// As LibTorch's engine adds up the gradients of the norm's output.
  void add_use(at::Tensor& sum, const at::Tensor& gradient) const {
    if (sum.defined())
      sum = sum.to(type_).add_(gradient.to(type_));
    else
      sum = gradient;
  }

  norm_part norm;
  linear_part last;

 private:
  at::ScalarType type_{}, last_type_{};  // of x and of the last layer
};

struct attention_node final : branch_node {
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const layer_list& layers, const linear_layer& output,
                     const branch_attention& options) {
    how = options;
    const auto h = normalised(x, first);
    std::vector<at::Tensor> projected_heads;
    for (const auto* each : layers) {
      projected_heads.push_back(
        projections.emplace_back().run(*this, h, each->as_parameters()));
      trains |= each->weight.requires_grad();
    }
    const auto all = heads_of(projected_heads);
    const auto result = fused::attend(all, how.scale, /*causal=*/true);
    if (layers.size() == 1)
      projected = keep(projected_heads[0]);
    else
      for (const auto& each : all)
        projected = keep(each);  // the last of three
    attended = keep(result.output);
    logarithms = keep(result.logarithms);
    if (how.cosines.defined()) {
      is_rotated = true;
      cosines = keep(std::exchange(how.cosines, {}));
      sines = keep(std::exchange(how.sines, {}));
    }
    return added(x, result.output.view({x.size(0), x.size(1), -1}), output);
  }

  at::Tensor backward(at::Tensor gradient) override {
    auto of_attended = before_last(gradient, wants_norm() || trains);
    if (!of_attended.defined())
      return {};
    auto of_projections = projections.size() == 1 ? before_one(of_attended)
                                                  : before_three(of_attended);
    of_attended.reset();
    at::Tensor of_norm;
    for (auto i = projections.size(); i-- > 0;) {
      const auto before = projections[i].backward(
        *this, rows_of(of_projections[i]), wants_norm());
      of_projections.pop_back();
      if (before.defined())
        add_use(of_norm, before);
    }
    return of_norm.defined() ? before_norm(gradient, of_norm) : at::Tensor();
  }

 private:
  /// Queries, keys and values, [rows, positions, heads, head size].
  fused::heads_of_three heads_of(
    const std::vector<at::Tensor>& projected_heads) const {
    if (projected_heads.size() == 1)
      return parts_of(projected_heads[0]);
    const auto heads = [&](const at::Tensor& y, std::int64_t count) {
      return y.view({y.size(0), y.size(1), count, y.size(2) / count});
    };
    fused::heads_of_three all{heads(projected_heads[0], how.heads),
                              heads(projected_heads[1], how.key_heads),
                              heads(projected_heads[2], how.key_heads)};
    if (how.cosines.defined())
      for (const auto i : {0, 1})
        all[i] = fused::rotate(all[i], how.cosines, how.sines);
    return all;
  }
  /// Views of a projection.
  fused::heads_of_three parts_of(const at::Tensor& y) const {
    const auto rows = y.size(0), positions = y.size(1);
    const auto size = y.size(2) / how.heads / 3;
    const auto view = how.by_head
                        ? y.view({rows, positions, how.heads, 3, size})
                        : y.view({rows, positions, 3, how.heads, size});
    const auto at = how.by_head ? 3 : 2;
    return {view.select(at, 0), view.select(at, 1), view.select(at, 2)};
  }

  std::vector<at::Tensor> before_one(const at::Tensor& of_attended) {
    const auto y = take(projected);
    auto result = at::empty_like(y);
    run_backward(parts_of(y), of_attended, parts_of(result));
    return {result};
  }
  std::vector<at::Tensor> before_three(const at::Tensor& of_attended) {
    const fused::heads_of_three all{take(projected - 2), take(projected - 1),
                                    take(projected)};
    fused::heads_of_three of_all;
    for (std::size_t i = 0; i < 3; ++i)
      of_all[i] = at::empty(all[i].sizes(), all[i].options());
    run_backward(all, of_attended, of_all);
    if (is_rotated) {
      const auto c = take(cosines), s = take(sines);
      for (const auto i : {0, 1})
        of_all[i] = fused::rotate_back(of_all[i], c, s);
    }
    std::vector<at::Tensor> flat;
    for (const auto& each : of_all)
      flat.push_back(each.view({each.size(0), each.size(1), -1}));
    return flat;
  }
  void run_backward(const fused::heads_of_three& all,
                    const at::Tensor& of_attended,
                    const fused::heads_of_three& to) {
    const auto output = take(attended);
    fused::attend_backward(all, {output, take(logarithms)},
                           of_attended.view(output.sizes()), to, how.scale,
                           /*causal=*/true);
  }

  std::vector<linear_part> projections;
  branch_attention how;
  bool is_rotated = false, trains = false;
  std::size_t projected = 0, attended = 0, logarithms = 0;
  std::size_t cosines = 0, sines = 0;
};

struct mlp_node final : branch_node {
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const linear_layer* gate_layer,
                     const linear_layer& up_layer,
                     const linear_layer& down_layer, fused::activation of) {
    which = of;
    is_gated = gate_layer != nullptr;
    auto h = normalised(x, first);
    const auto u = is_gated ? gate.run(*this, h, gate_layer->as_parameters())
                            : up.run(*this, h, up_layer.as_parameters());
    auto y = fused::activate(u, which);
    activated = keep(u);
    if (is_gated) {
      const auto v = up.run(*this, h, up_layer.as_parameters());
      kept_act = keep(y);
      kept_up = keep(v);
      y = y * v;
    }
    h.reset();
    return added(x, y, down_layer);
  }

  at::Tensor backward(at::Tensor gradient) override {
    const bool wants_up = wants_norm() || up.trains || gate.trains;
    auto after = before_last(gradient, wants_up);
    if (!after.defined())
      return {};
    at::Tensor of_up;
    if (is_gated) {
      of_up = up.backward(*this, after * rows_of(take(kept_act)), wants_norm());
      after = after * rows_of(take(kept_up));
    }
    after = fused::activate_backward(after, rows_of(take(activated)), which);
    auto of_norm = (is_gated ? gate : up).backward(*this, after, wants_norm());
    after.reset();
    if (!of_norm.defined())
      return {};
    if (is_gated) {
      at::Tensor sum;
      add_use(sum, of_norm);
      add_use(sum, of_up);
      of_norm = sum;
    }
    return before_norm(gradient, of_norm);
  }

  linear_part gate, up;
  fused::activation which{};
  bool is_gated = false;
  std::size_t activated = 0, kept_act = 0, kept_up = 0;
};

}  // namespace

at::Tensor norm_with_linear(const at::Tensor& x, const norm_layer& norm,
                            const linear_layer& layer) {
  return joined<norm_linear_node>(
    x, norm, {&layer},
    [&](norm_linear_node& node) { return node.forward(x, norm, layer); });
}

at::Tensor sum_of_embeddings(const embedding_layer& tokens,
                             const at::Tensor& ids,
                             const embedding_layer& positions,
                             const at::Tensor& places) {
  const tensor_list parameters{tokens.weight, positions.weight};
  return joins(ids, parameters) ? with_node<embeddings_node>(
           ids, leaf_of(ids, parameters),
           [&](embeddings_node& node) {
             return node.forward(tokens, ids, positions, places);
           })
                                : at::Tensor();
}

at::Tensor attention_branch(const at::Tensor& x, const norm_layer& norm,
                            const std::vector<const linear_layer*>& projections,
                            const linear_layer& output,
                            const branch_attention& how) {
  if (!x.is_cpu() || !fused::has_attention(compute_type(x)))
    return {};
  auto layers = projections;
  layers.push_back(&output);
  return joined<attention_node>(x, norm, layers, [&](attention_node& node) {
    return node.forward(x, norm, projections, output, how);
  });
}

at::Tensor mlp_branch(const at::Tensor& x, const norm_layer& norm,
                      const linear_layer* gate, const linear_layer& up,
                      const linear_layer& down, fused::activation which) {
  return joined<mlp_node>(x, norm, {gate, &up, &down}, [&](mlp_node& node) {
    return node.forward(x, norm, gate, up, down, which);
  });
}

}  // namespace troupe
