#include <cmath>

#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

/// GPT-2 (Radford et al., 2019): learned positions, LayerNorms, weights of
/// linear layers as [inputs, outputs].
decoder_options read_gpt2(model_config& config) {
  decoder_options o;
  auto& names = o.names;
  names.tokens = "transformer.wte";
  names.positions = "transformer.wpe";
  names.blocks = "transformer.h";
  names.last_norm = "transformer.ln_f";
  names.attention = "attn";
  names.fused = "c_attn";
  names.output = "c_proj";
  names.first_norm = "ln_1";
  names.second_norm = "ln_2";
  names.up = "c_fc";
  names.down = "c_proj";
  o.vocabulary = config.whole("vocab_size", 50257);
  o.width = config.whole("n_embd", 768);
  o.layers = config.whole("n_layer", 12, 1, most_layers);
  o.heads = o.key_heads = config.whole("n_head", 12);
  o.head_size = o.width / o.heads;
  o.inner = config.whole("n_inner", 4 * o.width);
  o.length = config.whole("n_positions", 1024);
  o.norm = decoder_options::norm_kind::layer;
  o.epsilon = config.number("layer_norm_epsilon", 1e-5);
  o.transposed = o.query_bias = o.output_bias = o.mlp_bias = true;
  o.gated = false;
  o.activation = config.text("activation_function", "gelu_new");
  o.tied = config.flag("tie_word_embeddings", true);
  o.deviation = config.number("initializer_range", 0.02);
  o.residual_deviation =
    o.deviation / std::sqrt(2 * static_cast<double>(o.layers));
  if (o.width % o.heads != 0)
    config.refuse("n_embd", "is not a multiple of n_head");
  const bool scales = config.flag("scale_attn_weights", true);
  const bool by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
  for (std::int64_t i = 0; i < o.layers; ++i)
    o.scales.push_back(
      (scales ? 1 / std::sqrt(static_cast<double>(o.head_size)) : 1)
      / (by_layer ? static_cast<double>(i + 1) : 1));
  require_no_dropout(config, {"attn_pdrop", "embd_pdrop", "resid_pdrop"});
  // The order of a rounding, and heads for classification.
  config.ignore({"n_ctx", "reorder_and_upcast_attn", "summary_activation",
                 "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
  return o;
}

}  // namespace troupe
