#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe {
enum class folder_use : std::uint8_t;
}

namespace troupe::cli {

/// The group of --model in help.
inline constexpr auto model_group = "Model: its kind, its sizes, or its folder";

struct model_flags {
  std::string name = "gpt";  // or the path of a model_folder
  option_values values;      // of the options of all models
  bool from_scratch = false;
  decoder_choices choices;  // without the adapters' seed
  std::string initial;

  /// Whether the name is a folder's instead of a registered model's.
  bool is_folder() const;
  /// How the run uses that folder.
  folder_use use() const;
};

/// Declares --model, and a flag for each option of the registered models,
/// grouped by the models that have it. `folders`: whether folders of
/// transformers' models are allowed.
void add_model_flags(CLI::App& app, model_flags& flags, bool folders = true);

/// The long names of the flags that the chosen model does not have.
std::vector<std::string> flags_of_other_models(const model_flags& flags);

/// Builds the chosen model. `dtype`: that of the parameters of a model folder.
/// Throws as the registry's entries and `model_folder` do.
built_model build_model(const model_flags& flags,
                        const text_batch_options& data, at::ScalarType dtype);

}  // namespace troupe::cli
