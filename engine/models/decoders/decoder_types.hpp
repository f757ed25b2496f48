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

/// Reads a config.json, all of whose fields must be understood. Throws
/// `invalid_checkpoint`.
decoder_options read_decoder(model_config& config);

}  // namespace troupe
