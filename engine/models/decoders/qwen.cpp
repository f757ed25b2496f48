#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

/// Qwen 2 and 2.5 (Yang et al., 2024): biases of queries, keys and values.
decoder_options read_qwen2(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config);
  o.query_bias = true;
  read_windows(config, o);
  return o;
}

/// Qwen 3 (Yang et al., 2025): norms of each head's queries and keys.
decoder_options read_qwen3(model_config& config) {
  auto o = read_gated(config, 128);
  o.query_norms = decoder_options::query_norm::head;
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  read_windows(config, o);
  return o;
}

}  // namespace troupe
