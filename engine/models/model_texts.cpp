#include "troupe/engine/models/model_texts.hpp"

#include <fmt/ranges.h>

#include "troupe/engine/data/mapped_file.hpp"

namespace troupe {

std::map<std::string, std::string> texts_of_folder(
  const model_folder& folder, const lora_options& lora,
  const text_batch_options& data) {
  std::map<std::string, std::string> texts{
    {"model", from_folder},
    {"seq", std::to_string(data.length)},
    {"vocabulary", std::to_string(data.vocabulary)},
    {config_json_text, folder.config()},
    {ends_text,
     fmt::format("{}", fmt::join(text_ends_in(folder.path()), " "))}};
  if (lora.rank == 0)
    return texts;
  texts.emplace("lora-rank", std::to_string(lora.rank));
  texts.emplace("lora-alpha", fmt::format("{}", lora.alpha));
  texts.emplace("lora-modules", lora.modules);
  std::vector<std::string> weights;
  for (const auto& path : folder.files())
    if (path.ends_with(".safetensors"))
      weights.push_back(content_text(path));
  texts.emplace(base_text, fmt::format("{}", fmt::join(weights, ", ")));
  return texts;
}

}  // namespace troupe
