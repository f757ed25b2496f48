#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/layers/layers.hpp"

namespace troupe {

std::shared_ptr<norm_layer> make_norm(const decoder_options& options,
                                      std::int64_t width,
                                      const at::TensorOptions& kind);

/// Causal attention of all heads, over earlier slices and positions too.
/// `starts`: the argument `document_starts`, or undefined: all are of one
/// document.
struct decoder_attention : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x,
                             const at::Tensor& starts = {}) = 0;
  /// x + forward(norm(x), starts) as one node of the graph, with the same bits;
  /// undefined if it can't compute that now.
  virtual at::Tensor branch(const at::Tensor& x, const norm_layer& norm,
                            const at::Tensor& starts) = 0;
};
std::shared_ptr<decoder_attention> make_attention(
  const decoder_options& options, std::size_t layer,
  const at::TensorOptions& kind);

struct decoder_mlp : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  /// x + forward(norm(x)), likewise.
  virtual at::Tensor branch(const at::Tensor& /*x*/,
                            const norm_layer& /*norm*/) {
    return {};
  }
  /// For experts whose use is to be balanced, fp32 [2, experts]: the sums of
  /// the router's probabilities and of its choices over the tokens of the last
  /// forward. Undefined for others.
  virtual at::Tensor take_routes() { return {}; }
};
std::shared_ptr<decoder_mlp> make_dense_mlp(const decoder_options& options,
                                            const at::TensorOptions& kind);
std::shared_ptr<decoder_mlp> make_experts(const decoder_options& options,
                                          const at::TensorOptions& kind);

}  // namespace troupe
