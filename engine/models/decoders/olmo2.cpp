#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

/// OLMo 2 (OLMo et al., 2025): norms behind attention and MLP, and of all
/// heads' queries and keys together.
decoder_options read_olmo2(model_config& config) {
  auto o = read_gated(config);
  o.place = decoder_options::norm_place::after;
  o.query_norms = decoder_options::query_norm::all;
  o.padding =
    config.whole("pad_token_id", config.lists("pad_token_id") ? -1 : 1, -1);
  o.epsilon = config.number("rms_norm_eps", 1e-5);
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.names.first_norm = "post_attention_layernorm";
  o.names.second_norm = "post_feedforward_layernorm";
  return o;
}

}  // namespace troupe
