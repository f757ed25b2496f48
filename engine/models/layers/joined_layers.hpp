#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/fused/activation_kind.hpp"
#include "troupe/engine/models/layers/layers.hpp"

namespace troupe {

// Layers that are one node of LibTorch's graph together, as its engine needs
// about 10 us for each. They have the bits of the layers called one after
// another, and save no other tensors. The result is undefined where the layers
// are to be called instead: without a gradient graph, while a monitor observes,
// on devices without kernels for the norm, with adapters, or if only one of a
// linear layer's parameters is trained. No other function of LibTorch's may
// read their parameters.

/// layer(norm(x)); x: [rows, positions, width].
at::Tensor norm_with_linear(const at::Tensor& x, const norm_layer& norm,
                            const linear_layer& layer);

/// tokens(ids) + positions(places), which are broadcast.
at::Tensor sum_of_embeddings(const embedding_layer& tokens,
                             const at::Tensor& ids,
                             const embedding_layer& positions,
                             const at::Tensor& places);

// The residual branches of a pre-norm block.

struct branch_attention {
  std::int64_t heads = 1, key_heads = 1;
  double scale = 1;
  /// How one projection gives queries, keys and values: three of all heads, or
  /// three of each.
  bool by_head = false;
  /// Of queries and keys, of three projections (fused/rotary.hpp); undefined:
  /// they are not rotated.
  at::Tensor cosines{}, sines{};
};

/// x + output(causal attention(projections(norm(x)))), on CPUs; x: [rows,
/// positions, width]. `projections`: one, or those of queries, keys and values.
at::Tensor attention_branch(const at::Tensor& x, const norm_layer& norm,
                            const std::vector<const linear_layer*>& projections,
                            const linear_layer& output,
                            const branch_attention& how);

/// x + down(activation(up(norm(x)))), or with a gate
/// x + down(activation(gate(norm(x))) * up(norm(x))). `gate`: may be null.
at::Tensor mlp_branch(const at::Tensor& x, const norm_layer& norm,
                      const linear_layer* gate, const linear_layer& up,
                      const linear_layer& down, fused::activation which);

}  // namespace troupe
