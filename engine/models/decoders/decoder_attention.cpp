#include <ATen/ops/arange.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/fused/attention.hpp"
#include "troupe/engine/models/decoders/decoder_parts.hpp"
#include "troupe/engine/models/layers/residual_branches.hpp"
#include "troupe/engine/stage/module/slices.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"

namespace troupe {

namespace {

using heads_of_three = std::array<at::Tensor, 3>;  // query, key, value

/// Which of the keys, the last of which are those of the queries, a query sees.
/// [queries, keys], or with documents [rows, 1, queries, keys].
at::Tensor mask_of(std::int64_t queries, std::int64_t keys, std::int64_t window,
                   const at::Tensor& starts, at::Device device) {
  const auto kind = at::TensorOptions(device).dtype(at::kLong);
  const auto places = at::arange(keys, kind).unsqueeze(0);
  const auto back =
    at::arange(keys - queries, keys, kind).unsqueeze(1) - places;
  auto sees = window > 0 ? (back >= 0).logical_and(back < window) : back >= 0;
  return starts.defined()
           ? sees.logical_and(places >= starts.unsqueeze(1).unsqueeze(3))
           : sees;
}

struct attention final : decoder_attention {
  attention(const decoder_options& options, std::size_t layer,
            const at::TensorOptions& kind)
    : o_(options),
      scale_(options.scales.at(layer)),
      window_(options.windows.empty() ? 0 : options.windows.at(layer)),
      rotations_(options.rotary) {
    const auto& names = o_.names;
    const linear_options inputs{kind, o_.query_bias, o_.transposed};
    const auto all = o_.heads * o_.head_size;
    const auto keys = o_.key_heads * o_.head_size;
    if (!names.fused.empty()) {
      fused_ = add(names.fused, all + 2 * keys, inputs);
    } else {
      query_ = add(names.query, all, inputs);
      key_ = add(names.key, keys, inputs);
      value_ = add(names.value, keys, inputs);
    }
    output_ = register_module(
      names.output,
      std::make_shared<linear_layer>(
        all, o_.width, linear_options{kind, o_.output_bias, o_.transposed}));
    if (o_.query_norms == decoder_options::query_norm::none)
      return;
    const bool by_head = o_.query_norms == decoder_options::query_norm::head;
    query_norm_ = register_module(
      "q_norm", make_norm(o_, by_head ? o_.head_size : all, kind));
    key_norm_ = register_module(
      "k_norm", make_norm(o_, by_head ? o_.head_size : keys, kind));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& starts) override {
    const auto b = x.size(0), t = x.size(1);
    const auto y = attended(x, starts).reshape({b, t, o_.heads * o_.head_size});
    return observe(output_, y);
  }

  at::Tensor branch(const at::Tensor& x, const norm_layer& norm,
                    const at::Tensor& starts) override {
    const bool joins = fused_ ? is_simple() : has_plain_heads();
    if (!joins || !sees_all(x.size(1), starts))
      return {};
    attention_shape shape{
      .heads = o_.heads,
      .key_heads = o_.key_heads,
      .scale = scale_,
      .by_head = o_.fused == decoder_options::fusion::heads};
    if (o_.rotary.dimensions > 0) {
      auto by = rotations_.of(0, x.size(1), x.device());
      shape.cosines = std::move(by.cosines);
      shape.sines = std::move(by.sines);
    }
    using layers = std::vector<const linear_layer*>;
    return attention_branch(
      x, norm,
      {*this,
       fused_ ? layers{fused_.get()}
              : layers{query_.get(), key_.get(), value_.get()},
       *output_, shape});
  }

 private:
  /// Whether attention is that of one projection of all positions.
  bool is_simple() const {
    return fused_ && o_.rotary.dimensions == 0 && !current_pass()
           && !drops_weights();
  }
  /// Whether it is that of three projections, at most rotated.
  bool has_plain_heads() const {
    return !fused_ && !query_norm_ && !current_pass() && !drops_weights();
  }
  bool drops_weights() const {
    return o_.dropout.attention > 0 && current_draws();
  }
  /// Whether queries see all keys up to their own.
  bool sees_all(std::int64_t keys, const at::Tensor& starts) const {
    return !starts.defined() && (window_ == 0 || keys <= window_);
  }

  /// [rows, positions, heads, head size].
  at::Tensor attended(const at::Tensor& x, const at::Tensor& starts) {
    const auto t = x.size(1);
    if (is_simple() && sees_all(t, starts))
      return fused::self_attention(projection(x), {.scale = scale_});
    auto [q, k, v] = projected(x);
    if (o_.rotary.dimensions > 0) {
      const auto by = rotations_.of(current_slice().first, t, x.device());
      q = rotated(q, by);
      k = rotated(k, by);
    }
    const auto keys = with_earlier_slices(k, 2);
    const auto values = with_earlier_slices(v, 2);
    const auto all = keys.size(2);
    if (!drops_weights() && sees_all(all, starts))
      return fused::attention(q.transpose(1, 2), keys.transpose(1, 2),
                              values.transpose(1, 2), {.scale = scale_});
    const auto mask = mask_of(t, all, window_, starts, x.device());
    const auto y = drops_weights()
                     ? attention_with_dropout(q, keys, values, mask)
                     : at::scaled_dot_product_attention(
                       q, keys, values, mask, /*dropout_p=*/0.0,
                       /*is_causal=*/false, scale_,
                       /*enable_gqa=*/o_.heads != o_.key_heads);
    return y.transpose(1, 2);
  }

  /// With dropout of the weights, which LibTorch's operator would draw itself.
  at::Tensor attention_with_dropout(const at::Tensor& q, const at::Tensor& keys,
                                    const at::Tensor& values,
                                    const at::Tensor& sees) const {
    const auto of_heads = [&](const at::Tensor& x) {
      return o_.heads == o_.key_heads
               ? x
               : x.repeat_interleave(o_.heads / o_.key_heads, 1);
    };
    const auto scores =
      q.matmul(of_heads(keys).transpose(-2, -1)).to(at::kFloat) * scale_;
    const auto weights =
      scores.masked_fill(sees.logical_not(), -HUGE_VAL).softmax(-1);
    return dropout(weights.to(q.scalar_type()), o_.dropout.attention)
      .matmul(of_heads(values));
  }

  std::shared_ptr<linear_layer> add(const std::string& name, std::int64_t size,
                                    const linear_options& options) {
    return register_module(
      name, std::make_shared<linear_layer>(o_.width, size, options));
  }

  /// The output of the fused layer, [rows, positions, 3, heads, head size].
  at::Tensor projection(const at::Tensor& x) {
    const auto b = x.size(0), t = x.size(1), size = o_.head_size;
    const auto y = observe(fused_, x);
    return o_.fused == decoder_options::fusion::thirds
             ? y.view({b, t, 3, o_.heads, size})
             : y.view({b, t, o_.heads, 3, size}).transpose(2, 3);
  }

  /// [rows, heads, positions, head size].
  heads_of_three projected(const at::Tensor& x) {
    const auto b = x.size(0), t = x.size(1), size = o_.head_size;
    if (fused_) {
      const auto parts = projection(x).unbind(2);
      return {parts[0].transpose(1, 2), parts[1].transpose(1, 2),
              parts[2].transpose(1, 2)};
    }
    const auto heads = [&](const at::Tensor& y, const auto& norm) {
      const bool by_head = o_.query_norms == decoder_options::query_norm::head;
      const auto whole = norm && !by_head ? observe(norm, y) : y;
      const auto split = whole.view({b, t, -1, size});
      return (norm && by_head ? observe(norm, split) : split).transpose(1, 2);
    };
    return {heads(observe(query_, x), query_norm_),
            heads(observe(key_, x), key_norm_),
            heads(observe(value_, x), std::shared_ptr<norm_layer>{})};
  }

  decoder_options o_;
  double scale_;
  std::int64_t window_;
  rotary_table rotations_;
  std::shared_ptr<linear_layer> fused_, query_, key_, value_, output_;
  std::shared_ptr<norm_layer> query_norm_, key_norm_;
};

}  // namespace

std::shared_ptr<decoder_attention> make_attention(
  const decoder_options& options, std::size_t layer,
  const at::TensorOptions& kind) {
  return std::make_shared<attention>(options, layer, kind);
}

}  // namespace troupe
