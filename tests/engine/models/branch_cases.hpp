// Decoders whose layers are one node together, and how they are trained.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe::testing::branches {

constexpr std::int64_t width = 32, heads = 2, length = 16, blocks = 2;

struct branch_case {
  std::string name;
  decoder_options decoder{};
  troupe::numerics numerics{};
  std::vector<std::string> frozen{};  // parts of parameters' names
  bool splits = false;
};

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

inline std::vector<branch_case> cases() {
  troupe::numerics cast, narrow, again, graph, layers;
  cast.autocast = at::kBFloat16;
  narrow.dtypes.parameters = at::kBFloat16;
  again.recompute = true;
  graph.backward_split = weight_split::graph;
  layers.backward_split = weight_split::layers;
  auto tanh = options(false), transposed = options(false), by_head = tanh;
  tanh.activation = "gelu_new";
  transposed.transposed = true;
  by_head.fused = decoder_options::fusion::heads;
  auto tied = options(true, false), dropped = options(false);
  tied.tied = true;
  dropped.dropout = {0.1, 0.1, 0.1};
  return {
    {"LayerNorm and GELU", options(false)},
    {"RMSNorm and a gate", options(true)},
    {"without biases", options(true, false)},
    {"by tanh", tanh},
    {"transposed", transposed},
    {"by head", by_head},
    {"tied", tied},
    {"dropout", dropped},
    {"autocast", options(false), cast},
    {"autocast with a gate", options(true), cast},
    {"bf16", options(false), narrow},
    {"bf16 with a gate", options(true), narrow},
    {"recompute", options(false), again},
    {"split by layers", options(false), layers, {}, true},
    {"split along the graph", options(true), graph, {}, true},
    {"rotary", grouped(16)},
    {"partly rotary, autocast", grouped(8), cast},
    {"three projections, bf16", grouped(0), narrow},
    {"rotary, bf16", grouped(16), narrow},
    {"rotary, recompute", grouped(8), again},
    {"rotary, split along the graph", grouped(16), graph, {}, true},
    {"rotary, frozen keys", grouped(16), layers, {"k_proj", "ends"}, true},
    {"frozen norms", options(false), {}, {"layernorm"}},
    {"frozen biases", options(false), {}, {"bias"}},
    {"frozen attention", options(false), {}, {"attn"}},
    {"frozen ends", options(true), {}, {"embed", "positions", "down"}},
    {"frozen in I", options(true), layers, {"input_layernorm", "up"}, true},
  };
}

}  // namespace troupe::testing::branches
