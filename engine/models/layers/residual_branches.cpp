#include "troupe/engine/models/layers/residual_branches.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>
#include <vector>

#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/engine/fused/attention_operators.hpp"
#include "troupe/engine/fused/rotary.hpp"
#include "troupe/engine/models/layers/joined_node.hpp"
#include "troupe/engine/stage/module/autocast.hpp"

namespace troupe {

namespace {

at::Tensor rows_of(const at::Tensor& x) {
  return x.view({-1, x.size(-1)});
}

/// Begins with a norm, and ends with a linear layer.
struct branch_node : joined_node {
  layer_input normalised(const at::Tensor& x, const norm_layer& layer) {
    auto h = norm.run(*this, layer, x);
    if (is_observed())
      shown_ = h.shown;
    return h;
  }
  /// x + last(y); last(y) is the output of `module`, which reads the norm's.
  at::Tensor added(const at::Tensor& x, const at::Tensor& y,
                   const linear_layer& layer, const torch::nn::Module& module) {
    last_type_ = compute_type(y);
    auto z = last.run(*this, layer, {y, y});
    whole_ = &module;
    publish(module, std::exchange(shown_, {}), z);
    // Monitors may read what they have seen until the step's end.
    const bool in_place = z.scalar_type() == norm.type && !is_observed();
    return in_place ? z.add_(x) : at::add(x, z);
  }

  /// The gradient of the last layer's input, by rows.
  at::Tensor before_last(const at::Tensor& gradient, bool wanted) {
    const auto after = gradient.to(last_type_);
    if (last.trains() || wanted) {
      publish_gradient(*last.module, after);
      publish_gradient(*whole_, after);
    }
    return last.part.backward(*this, after.reshape({-1, after.size(-1)}),
                              wanted);
  }
  bool wants_norm() const { return norm.is_wanted(*this); }
  /// That of x, from that of the branch and that of the norm's output, which
  /// sums up here.
  at::Tensor before_norm(const at::Tensor& gradient,
                         const at::Tensor& of_output) {
    return norm.backward(*this, of_output.view(gradient.sizes()),
                         wants_input() ? gradient.to(norm.type) : at::Tensor());
  }

  /// As LibTorch's engine adds up the gradients of the norm's output.
  void add_use(at::Tensor& sum, const at::Tensor& gradient) const {
    if (sum.defined())
      sum = sum.to(norm.type).add_(gradient.to(norm.type));
    else
      sum = gradient;
  }

  joined_norm norm;
  joined_linear last;

 private:
  const torch::nn::Module* whole_ = nullptr;
  at::Tensor shown_;  // the norm's output
  at::ScalarType last_type_{};
};

struct attention_node final : branch_node {
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const attention_parts& parts) {
    how = parts.shape;
    auto h = normalised(x, first);
    std::vector<at::Tensor> projected_heads;
    for (const auto* each : parts.projections) {
      projected_heads.push_back(
        projections.emplace_back().run(*this, *each, h));
      trains |= each->weight.requires_grad();
    }
    const auto all = heads_of(projected_heads);
    const auto result = fused::attend(all, how.scale, /*causal=*/true);
    if (projections.size() == 1)
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
    return added(x, result.output.view({x.size(0), x.size(1), -1}),
                 parts.output, parts.whole);
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

  std::vector<joined_linear> projections;
  attention_shape how;
  bool is_rotated = false, trains = false;
  std::size_t projected = 0, attended = 0, logarithms = 0;
  std::size_t cosines = 0, sines = 0;
};

struct mlp_node final : branch_node {
  at::Tensor forward(const at::Tensor& x, const norm_layer& first,
                     const mlp_parts& parts) {
    which = parts.which;
    act = &parts.act;
    is_gated = parts.gate != nullptr;
    auto h = normalised(x, first);
    const auto u =
      is_gated ? gate.run(*this, *parts.gate, h) : up.run(*this, parts.up, h);
    activated = keep(u);
    at::Tensor y;
    if (!is_gated || shows_output(*act))
      y = fused::activate(u, which);
    publish(*act, u, y);
    if (is_gated) {
      const auto v = up.run(*this, parts.up, h);
      factor = keep(v);
      y = fused::activate_gated(u, v, which);
    }
    h = {};
    return added(x, y, parts.down, parts.whole);
  }

  at::Tensor backward(at::Tensor gradient) override {
    const bool wants_up = wants_norm() || up.trains() || gate.trains();
    auto after = before_last(gradient, wants_up);
    if (!after.defined())
      return {};
    const auto of_norm =
      is_gated ? before_both(std::move(after)) : before_up(std::move(after));
    return of_norm.defined() ? before_norm(gradient, of_norm) : at::Tensor();
  }

 private:
  // `after`: the gradient of what the last layer reads. Return that of the
  // norm's output.
  at::Tensor before_up(at::Tensor after) {
    if (shows_before_act(up))
      publish_gradient(*act, after.view(up.sizes));
    after = fused::activate_backward(after, rows_of(take(activated)), which);
    return up.backward(*this, after, wants_norm());
  }
  at::Tensor before_both(at::Tensor after) {
    const auto u = rows_of(take(activated)), v = rows_of(take(factor));
    if (shows_before_act(gate))
      publish_gradient(*act, (after * v).view(gate.sizes));
    auto of_both = fused::activate_gated_backward(after, u, v, which);
    after.reset();
    at::Tensor sum;
    const auto of_up =
      up.backward(*this, std::exchange(of_both.factor, {}), wants_norm());
    const auto of_gate =
      gate.backward(*this, std::exchange(of_both.x, {}), wants_norm());
    if (!of_gate.defined())
      return {};
    add_use(sum, of_gate);
    add_use(sum, of_up);
    return sum;
  }
  /// `before`: the layer that the activation reads.
  bool shows_before_act(const joined_linear& before) const {
    return shows_gradient(*act) && (before.trains() || wants_norm());
  }

  joined_linear gate, up;
  const torch::nn::Module* act = nullptr;
  fused::activation which{};
  bool is_gated = false;
  std::size_t activated = 0, factor = 0;
};

}  // namespace

at::Tensor attention_branch(const at::Tensor& x, const norm_layer& norm,
                            const attention_parts& parts) {
  if (!x.is_cpu() || !fused::has_attention(compute_type(x)))
    return {};
  auto layers = parts.projections;
  layers.push_back(&parts.output);
  return joined<attention_node>(x, norm, layers, [&](attention_node& node) {
    return node.forward(x, norm, parts);
  });
}

at::Tensor mlp_branch(const at::Tensor& x, const norm_layer& norm,
                      const mlp_parts& parts) {
  return joined<mlp_node>(
    x, norm, {parts.gate, &parts.up, &parts.down},
    [&](mlp_node& node) { return node.forward(x, norm, parts); });
}

}  // namespace troupe
