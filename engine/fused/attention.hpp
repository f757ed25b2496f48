#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace troupe::fused {

struct attention_options {
  std::optional<double> scale{};  // of the scores; without: 1 / sqrt(size)
  /// Query i sees the keys up to i + keys - queries; else all.
  bool causal = true;
};

/// softmax(scale q k^T) v of each head. query: [rows, queries, heads, size];
/// key and value: [rows, keys, key heads, size], of which each serves heads /
/// key heads of the query's (grouped-query attention, Ainslie et al., 2023).
/// They may be views of any strides, such as parts of one projection: none is
/// copied if the elements of a head are adjacent. Result: as query, contiguous.
///
/// On CPUs with AVX2 or AVX-512, for fp32 and, unless the processor has AMX for
/// it, bf16, by a kernel of troupe's. That computes in fp32, keeps the
/// logarithm of each query's sum for the backward instead of the weights
/// (FlashAttention, Dao et al., 2022), and has the same bits for every number
/// of threads. Otherwise by LibTorch's scaled_dot_product_attention. The choice
/// depends on the processor, the shapes and the dtypes alone. Throws
/// `invalid_argument` on shapes that don't match. Any thread.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value,
                     const attention_options& options = {});

/// The same of one projection's query, key and value, [rows, positions, 3,
/// heads, size], which may be a view. Its gradient is one tensor, of the same
/// strides if the view is dense: no part of it is copied or joined.
at::Tensor self_attention(const at::Tensor& projection,
                          const attention_options& options = {});

}  // namespace troupe::fused
