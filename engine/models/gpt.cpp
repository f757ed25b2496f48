#include "troupe/engine/models/gpt.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "troupe/base/fail.hpp"
#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

namespace {

void require_sizes(const gpt_options& options) {
  if (options.width < 1 || options.layers < 1 || options.heads < 1
      || options.length < 1 || options.vocabulary < 1)
    throw error(error_code::invalid_argument,
                "d-model, layers, heads and seq must be at least 1");
  if (options.width % options.heads != 0)
    fail(error_code::invalid_argument,
         "--d-model {} is not a multiple of --heads {}", options.width,
         options.heads);
}

decoder_options decoder_of(const gpt_options& options) {
  decoder_options o;
  o.names = {.tokens = "tok",
             .positions = "pos",
             .blocks = "blocks",
             .last_norm = "ln_f",
             .head = "head",
             .attention = "attn",
             .fused = "qkv",
             .output = "out",
             .first_norm = "ln1",
             .second_norm = "ln2",
             .up = "up",
             .down = "down"};
  o.vocabulary = options.vocabulary;
  o.width = options.width;
  o.layers = options.layers;
  o.heads = o.key_heads = options.heads;
  o.head_size = options.width / options.heads;
  o.inner = 4 * options.width;
  o.length = options.length;
  o.norm = decoder_options::norm_kind::layer;
  o.epsilon = 1e-5;
  o.query_bias = o.output_bias = o.mlp_bias = o.head_bias = true;
  o.gated = false;
  o.activation = "gelu";
  o.tied = options.tie_embeddings;
  o.dropout = {options.dropout, options.dropout, options.dropout};
  o.residual_deviation =
    o.deviation / std::sqrt(2.0 * static_cast<double>(o.layers));
  return o;
}

/// Normal weights and zero biases. Groups: 0 the embeddings, 1 the head, 2 + i
/// block i.
void fill(torch::nn::Module& layer, const decoder_options& o,
          std::uint64_t seed, std::uint64_t group) {
  const at::NoGradGuard no_grad;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(
    (seed * 1'000'003 + group * 7919 + 1) & 0x7FFFFFFF);
  for (auto& each : layer.named_parameters()) {
    const auto& name = each.key();
    const bool residual =
      name == "attn.out.weight" || name == "mlp.down.weight";
    if (each->dim() == 2)
      each->normal_(0.0, residual ? o.residual_deviation : o.deviation,
                    generator);
    else if (name.ends_with("bias"))
      each->zero_();
  }
}

}  // namespace

model gpt(const gpt_options& options) {
  require_sizes(options);
  const auto o = decoder_of(options);
  auto layers = decoder(o, nullptr);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto last = i + 1 == layers.size();
    const std::uint64_t group = i == 0 ? 0 : last ? 1 : i + 1;
    layers[i].make = [make = layers[i].make, o, seed = options.seed, group] {
      auto layer = make();
      fill(*layer, o, seed, group);
      return layer;
    };
  }
  return layers;
}

double parameter_count(const gpt_options& options) {
  const auto d = static_cast<double>(options.width);
  const auto vocabulary = static_cast<double>(options.vocabulary);
  const auto block = 12 * d * d + 13 * d;
  const auto tables = (vocabulary + static_cast<double>(options.length)) * d;
  const auto head = 2 * d + (options.tie_embeddings ? 1 : d + 1) * vocabulary;
  return tables + static_cast<double>(options.layers) * block + head;
}

}  // namespace troupe
