// Decoders with a few layers, most of which are one node together.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <string>

#include "troupe/engine/models/decoders/decoder.hpp"

namespace troupe::testing::small_decoders {

constexpr std::int64_t width = 32, heads = 2, length = 16, blocks = 2;

/// GPT-2's kind of block, or with `gated` Llama's without rotary embeddings.
inline decoder_options options(bool gated, bool biased = true) {
  decoder_options o;
  o.vocabulary = 64;
  o.width = width;
  o.layers = blocks;
  o.heads = o.key_heads = heads;
  o.head_size = width / heads;
  o.inner = 2 * width;
  o.length = length;
  o.names.positions = "positions";
  o.names.fused = "qkv";
  o.norm =
    gated ? decoder_options::norm_kind::rms : decoder_options::norm_kind::layer;
  o.gated = gated;
  o.activation = gated ? "silu" : "gelu";
  o.query_bias = o.output_bias = o.mlp_bias = biased;
  return o;
}

/// Llama's kind: three projections, of which one key head serves two queries'.
inline decoder_options grouped(std::int64_t rotated) {
  auto o = options(true, false);
  o.names.fused.clear();
  o.names.positions.clear();
  o.key_heads = 1;
  o.rotary.dimensions = rotated;
  return o;
}

inline model model_of(const decoder_options& o) {
  return decoder(o, [fill = fresh_parameters(o, 3)](const std::string& name,
                                                    at::Tensor& parameter) {
    fill(name, parameter);
    if (parameter.dim() == 1)  // not ones and zeros alone
      parameter.add_(at::randn(parameter.sizes(),
                               at::make_generator<at::CPUGeneratorImpl>(
                                 std::hash<std::string>()(name) & 0xFFFF),
                               at::kFloat),
                     0.3);
  });
}

inline at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

}  // namespace troupe::testing::small_decoders
