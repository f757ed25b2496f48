#pragma once

#include <map>
#include <string>

#include "troupe/engine/models/model_folder.hpp"

namespace troupe {

// Texts by which checkpoints and files of parameters describe a model.

/// In place of a model's name, and the text that then describes it.
inline constexpr auto from_folder = "transformers";
inline constexpr auto config_json_text = "config.json";
/// The text for the frozen weights below adapters: sizes and hashes of the
/// files that hold them, as `content_text` gives.
inline constexpr auto base_text = "base-weights";
/// The text for the tokens that end a text: ids with spaces between them. A
/// model's folder may name them in generation_config.json.
inline constexpr auto ends_text = "text-ends";

/// For `manifest::model`: what it takes to make the model of a folder again, so
/// that `troupe generate` can, and to resume with the same one only. Reads the
/// weights' files below adapters. Throws `io`.
std::map<std::string, std::string> texts_of_folder(
  const model_folder& folder, const lora_options& lora,
  const text_batch_options& data);

}  // namespace troupe
