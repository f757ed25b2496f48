#pragma once

#include <string>
#include <vector>

#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/decoders/model_config.hpp"

namespace troupe {

/// A model type of Hugging Face's transformers (`model_type` of config.json).
struct decoder_type {
  std::string name;
  /// Reads the fields that are the type's own and those that types share;
  /// throws `invalid_checkpoint` for values that are not supported.
  decoder_options (*read)(model_config& config);
};

/// All that can be read. To add one: a function that reads its fields, and a
/// row in decoder_types.cpp.
const std::vector<decoder_type>& decoder_types();

/// Of a config.json, all of whose fields must be understood. Throws
/// `invalid_checkpoint`.
decoder_options read_decoder(model_config& config);

// For rows whose fields are read in files of their own.
decoder_options read_gpt2(model_config& config);
decoder_options read_gpt_neox(model_config& config);
decoder_options read_mixtral(model_config& config);
decoder_options read_qwen3_moe(model_config& config);

// What the types have in common.

constexpr std::int64_t most_layers = 1 << 16;

/// Sizes, norms, the activation, rotary embeddings and ties of a decoder with
/// RMSNorms and gated MLPs. `head_size`: if the fields don't say; 0: the
/// heads' share of the width. `base`: of rotary embeddings, likewise.
decoder_options read_gated(model_config& config, std::int64_t head_size = 0,
                           double base = 10'000);
/// Where transformers has a default of its own for a missing field.
void require_key_heads(const model_config& config);
/// `rope_parameters`, or the older `rope_theta` and `rope_scaling`; `share`: of
/// each head's dimensions that are rotated, unless the fields say.
rotary_options read_rotary(model_config& config, std::int64_t head_size,
                           double base, double share = 1);
/// A probability of dropout, which must be 0: troupe trains without.
void require_no_dropout(model_config& config,
                        std::initializer_list<const char*> names);

}  // namespace troupe
