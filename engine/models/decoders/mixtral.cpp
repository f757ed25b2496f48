#include <algorithm>

#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

namespace {

void read_experts(model_config& config, decoder_options& o) {
  o.experts.chosen = config.whole("num_experts_per_tok");
  if (o.experts.count > 0 && o.experts.chosen > o.experts.count)
    config.refuse("num_experts_per_tok", "is more than there are experts");
  config.require("router_jitter_noise", {0, 0.0});
  const auto factor = config.number("router_aux_loss_coef", 0.001);
  const bool any =
    std::ranges::find(o.experts.layers, true) != o.experts.layers.end();
  if (config.flag("output_router_logits", false) && any)
    o.experts.balance = factor;
}

}  // namespace

/// Mixtral 8x7B (Jiang et al., 2024): Mistral with experts in every layer.
decoder_options read_mixtral(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config, 0, 1e6);
  o.windows.assign(static_cast<std::size_t>(o.layers),
                   config.whole("sliding_window", 0, 0));
  o.names.mlp = "block_sparse_moe";
  o.experts.count =
    config.whole("num_local_experts", config.whole("num_experts", 8));
  o.experts.inner = o.inner;
  o.experts.normalised = true;
  o.experts.names = {.gate = "w1", .up = "w3", .down = "w2"};
  o.experts.layers.assign(static_cast<std::size_t>(o.layers), true);
  read_experts(config, o);
  return o;
}

/// Qwen 3's mixtures of experts (Yang et al., 2025), with dense MLPs in some
/// layers.
decoder_options read_qwen3_moe(model_config& config) {
  using wholes = std::vector<std::int64_t>;
  auto o = read_gated(config);
  o.query_norms = decoder_options::query_norm::head;
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  const bool slides = config.flag("use_sliding_window", false);
  const auto window = config.whole("sliding_window", 4096);
  o.windows.assign(static_cast<std::size_t>(o.layers), slides ? window : 0);
  config.ignore({"max_window_layers"});
  o.experts.count =
    config.whole("num_local_experts", config.whole("num_experts", 128, 0), 0);
  o.experts.inner = config.whole("moe_intermediate_size", 768);
  o.experts.normalised = config.flag("norm_topk_prob", false);
  const auto step = config.whole("decoder_sparse_step", 1);
  o.experts.layers.assign(static_cast<std::size_t>(o.layers), false);
  for (std::int64_t i = 0; i < o.layers; ++i)
    o.experts.layers[static_cast<std::size_t>(i)] =
      o.experts.count > 0 && (i + 1) % step == 0;
  for (const auto i : config.read<wholes>("mlp_only_layers", wholes{}))
    if (i >= 0 && i < o.layers)
      o.experts.layers[static_cast<std::size_t>(i)] = false;
  read_experts(config, o);
  return o;
}

}  // namespace troupe
