#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

/// Llama 2, 3 and 3.1 (Touvron et al., 2023; Dubey et al., 2024).
decoder_options read_llama(model_config& config) {
  auto o = read_gated(config);
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.mlp_bias = config.flag("mlp_bias", false);
  return o;
}

/// Mistral 7B (Jiang et al., 2023): Llama with a sliding window.
decoder_options read_mistral(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config);
  const auto window = config.whole(
    "sliding_window", config.lists("sliding_window") ? 0 : 4096, 0);
  o.windows.assign(static_cast<std::size_t>(o.layers), window);
  return o;
}

}  // namespace troupe
