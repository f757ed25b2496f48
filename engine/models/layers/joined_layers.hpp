#pragma once

#include "troupe/engine/models/layers/layers.hpp"

namespace troupe {

// Layers that are one node of LibTorch's graph together, as its engine needs
// about 10 us for each. They have the bits of the layers called one after
// another, save no other tensors, and show monitors the same. The result is
// undefined where the layers are to be called instead: without a gradient
// graph, on devices without kernels for the norm, with adapters, or if only one
// of a linear layer's parameters is trained. No other function of LibTorch's
// may read their parameters. Residual branches: residual_branches.hpp.

/// layer(norm(x)); x: [rows, positions, width].
at::Tensor norm_with_linear(const at::Tensor& x, const norm_layer& norm,
                            const linear_layer& layer);

/// tokens(ids) + positions(places), which are broadcast.
at::Tensor sum_of_embeddings(const embedding_layer& tokens,
                             const at::Tensor& ids,
                             const embedding_layer& positions,
                             const at::Tensor& places);

}  // namespace troupe
