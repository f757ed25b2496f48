#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/fused/activation_kind.hpp"
#include "troupe/engine/models/layers/layers.hpp"

namespace troupe {

// The residual branches of a pre-norm block as one node each
// (joined_layers.hpp). `whole`: the module that calls the layers behind the
// norm, for monitors.

struct attention_shape {
  std::int64_t heads = 1, key_heads = 1;
  double scale = 1;
  /// How one projection gives queries, keys and values: three of all heads, or
  /// three of each.
  bool by_head = false;
  /// [positions, pairs], fp32: the angles by which queries and keys of three
  /// projections are rotated (fused/rotary.hpp); undefined: they are not.
  at::Tensor cosines{}, sines{};
};

struct attention_parts {
  const torch::nn::Module& whole;
  /// One, or those of queries, keys and values.
  std::vector<const linear_layer*> projections;
  const linear_layer& output;
  attention_shape shape;
};

/// x + output(causal attention(projections(norm(x)))), on CPUs; x: [rows,
/// positions, width].
at::Tensor attention_branch(const at::Tensor& x, const norm_layer& norm,
                            const attention_parts& parts);

struct mlp_parts {
  const torch::nn::Module &whole, &act;
  const linear_layer* gate;  // may be null
  const linear_layer &up, &down;
  fused::activation which;
};

/// x + down(act(up(norm(x)))), or with a gate
/// x + down(act(gate(norm(x))) * up(norm(x))).
at::Tensor mlp_branch(const at::Tensor& x, const norm_layer& norm,
                      const mlp_parts& parts);

}  // namespace troupe
