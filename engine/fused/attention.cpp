#include "troupe/engine/fused/attention.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <string>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/fused/attention_operators.hpp"

namespace troupe::fused {

namespace {

using torch::autograd::variable_list;

bool is_plain(const at::Tensor& x, at::ScalarType type) {
  return x.device().is_cpu() && x.scalar_type() == type
         && x.layout() == at::kStrided;
}

bool has_kernel(const heads_of_three& all, bool causal) {
  const auto& [q, k, v] = all;
  const auto type = q.scalar_type();
  const bool is_cast = at::autocast::is_autocast_enabled(at::kCPU)
                       && at::autocast::get_autocast_dtype(at::kCPU) != type;
  return has_attention(type) && !is_cast && is_plain(q, type)
         && is_plain(k, type) && is_plain(v, type) && q.numel() > 0
         && k.size(1) > 0 && (!causal || q.size(1) <= k.size(1));
}

std::string text_of(const at::Tensor& x) {
  return fmt::format("[{}]", fmt::join(x.sizes(), ", "));
}

void require_shapes(const heads_of_three& all) {
  const auto& [q, k, v] = all;
  if (q.dim() != 4 || k.dim() != 4 || k.sizes() != v.sizes()
      || q.size(0) != k.size(0) || q.size(3) != k.size(3) || k.size(2) == 0
      || q.size(2) % k.size(2) != 0)
    fail(error_code::invalid_argument,
         "attention needs a query [rows, queries, heads, size], and a key and "
         "a value [rows, keys, key heads, size] of which heads is a multiple; "
         "they are {}, {} and {}",
         text_of(q), text_of(k), text_of(v));
}

double scale_of(const attention_options& options, const at::Tensor& query) {
  return options.scale.value_or(
    1 / std::sqrt(static_cast<double>(query.size(3))));
}

at::Tensor with_adjacent_elements(const at::Tensor& x) {
  return x.size(3) == 1 || x.stride(3) == 1 ? x : x.contiguous();
}

heads_of_three parts_of(const at::Tensor& projection) {
  return {projection.select(2, 0), projection.select(2, 1),
          projection.select(2, 2)};
}

void keep_for_backward(torch::autograd::AutogradContext* context,
                       variable_list tensors, double scale, bool causal) {
  context->save_for_backward(std::move(tensors));
  context->saved_data["scale"] = scale;
  context->saved_data["causal"] = causal;
}

/// Writes the gradients of `all` to `gradients`.
void run_backward(torch::autograd::AutogradContext* context,
                  const heads_of_three& all, const attended& result,
                  const at::Tensor& of_output,
                  const heads_of_three& gradients) {
  attend_backward(all, result, with_adjacent_elements(of_output), gradients,
                  context->saved_data["scale"].toDouble(),
                  context->saved_data["causal"].toBool());
}

struct attention_function : torch::autograd::Function<attention_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, double scale,
                            bool causal) {
    const heads_of_three all{with_adjacent_elements(query),
                             with_adjacent_elements(key),
                             with_adjacent_elements(value)};
    const auto result = attend(all, scale, causal);
    keep_for_backward(
      context, {all[0], all[1], all[2], result.output, result.logarithms},
      scale, causal);
    return result.output;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const heads_of_three all{saved[0], saved[1], saved[2]};
    const heads_of_three of_all{at::empty(all[0].sizes(), all[0].options()),
                                at::empty(all[1].sizes(), all[1].options()),
                                at::empty(all[2].sizes(), all[2].options())};
    run_backward(context, all, {saved[3], saved[4]}, gradients[0], of_all);
    return {of_all[0], of_all[1], of_all[2], {}, {}};
  }
};

struct self_attention_function
  : torch::autograd::Function<self_attention_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& projection, double scale,
                            bool causal) {
    const auto result = attend(parts_of(projection), scale, causal);
    keep_for_backward(context, {projection, result.output, result.logarithms},
                      scale, causal);
    return result.output;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto of_projection = at::empty_like(saved[0]);
    run_backward(context, parts_of(saved[0]), {saved[1], saved[2]},
                 gradients[0], parts_of(of_projection));
    return {of_projection, {}, {}};
  }
};

/// By LibTorch's operator, whose `is_causal` aligns first query and first key.
at::Tensor composed(const heads_of_three& all, double scale, bool causal) {
  const auto& [q, k, v] = all;
  const auto queries = q.size(1), keys = k.size(1);
  const bool needs_mask = causal && queries != keys && queries > 1;
  const auto mask =
    needs_mask
      ? std::optional(at::ones({queries, keys}, q.options().dtype(at::kBool))
                        .tril(keys - queries))
      : std::nullopt;
  return at::scaled_dot_product_attention(
           q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask,
           /*dropout_p=*/0.0, causal && queries == keys && queries > 1, scale,
           /*enable_gqa=*/q.size(2) != k.size(2))
    .transpose(1, 2);
}

}  // namespace

at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value,
                     const attention_options& options) {
  const heads_of_three all{query, key, value};
  require_shapes(all);
  const auto scale = scale_of(options, query);
  if (!has_kernel(all, options.causal))
    return composed(all, scale, options.causal).contiguous();
  return attention_function::apply(query, key, value, scale, options.causal);
}

at::Tensor self_attention(const at::Tensor& projection,
                          const attention_options& options) {
  if (projection.dim() != 5 || projection.size(2) != 3)
    fail(error_code::invalid_argument,
         "self-attention needs a projection [rows, positions, 3, heads, size]; "
         "it is {}",
         text_of(projection));
  const auto all = parts_of(projection);
  const auto scale = scale_of(options, all[0]);
  if (!has_kernel(all, options.causal)
      || (projection.size(4) > 1 && projection.stride(4) != 1)) {
    // `unbind`, so that the gradients are joined by one copy.
    const auto parts = projection.unbind(2);
    return attention(parts[0], parts[1], parts[2], options);
  }
  return self_attention_function::apply(projection, scale, options.causal);
}

}  // namespace troupe::fused
