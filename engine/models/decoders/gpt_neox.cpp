#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

/// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023).
decoder_options read_gpt_neox(model_config& config) {
  decoder_options o;
  auto& names = o.names;
  names.tokens = "gpt_neox.embed_in";
  names.blocks = "gpt_neox.layers";
  names.last_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  names.attention = "attention";
  names.fused = "query_key_value";
  names.output = "dense";
  names.up = "dense_h_to_4h";
  names.down = "dense_4h_to_h";
  o.vocabulary = config.whole("vocab_size", 50432);
  o.width = config.whole("hidden_size", 6144);
  o.layers = config.whole("num_hidden_layers", 44, 1, most_layers);
  o.heads = o.key_heads = config.whole("num_attention_heads", 64);
  o.head_size = o.width / o.heads;
  o.inner = config.whole("intermediate_size", 24576);
  o.norm = decoder_options::norm_kind::layer;
  o.epsilon = config.number("layer_norm_eps", 1e-5);
  o.place = config.flag("use_parallel_residual", true)
              ? decoder_options::norm_place::parallel
              : decoder_options::norm_place::before;
  o.fused = decoder_options::fusion::heads;
  o.query_bias = o.output_bias = config.flag("attention_bias", true);
  o.mlp_bias = true;
  o.gated = false;
  o.activation = config.text("hidden_act", "gelu");
  o.tied = config.flag("tie_word_embeddings", false);
  o.deviation = o.residual_deviation = config.number("initializer_range", 0.02);
  if (o.width % o.heads != 0)
    config.refuse("hidden_size", "is not a multiple of num_attention_heads");
  const auto share = config.number("rotary_pct", 0.25);
  o.rotary = read_rotary(config, o.head_size,
                         config.number("rotary_emb_base", 10'000), share);
  require_no_dropout(config,
                     {"attention_dropout", "hidden_dropout",
                      "attention_probs_dropout_prob", "hidden_dropout_prob"});
  config.ignore({"classifier_dropout"});
  return o;
}

}  // namespace troupe
