#include <fmt/format.h>

#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe {

namespace {

/// The number of heads leaves no trace in them.
told_sizes sizes_of_gpt(const tensor_sizes& tensors) {
  told_sizes told;
  const auto size = [&](const char* name, std::size_t dimension) {
    const auto found = tensors.find(name);
    return found == tensors.end() || found->second.size() != 2
             ? std::int64_t{0}
             : found->second[dimension];
  };
  const auto tell = [&](const char* option, std::int64_t value) {
    if (value > 0)
      told.values.emplace(option, value);
  };
  std::int64_t blocks = 0;
  while (tensors.contains(fmt::format("blocks.{}.attn.qkv.weight", blocks)))
    ++blocks;
  tell("d-model", size("tok.weight", 1));
  tell("layers", blocks);
  if (tensors.contains("tok.weight"))
    told.values.emplace("tie-embeddings", !tensors.contains("head.weight"));
  told.vocabulary = size("tok.weight", 0);
  told.length = size("pos.weight", 0);
  return told;
}

}  // namespace

model_entry gpt_model() {
  const gpt_options usual;
  return {
    "gpt",
    "a GPT; its layers are the embeddings, the blocks and the head",
    {{"d-model", "width", usual.width, 1, 1 << 20},
     {"layers", "transformer blocks", usual.layers, 1, 1 << 16},
     {"heads", "attention heads", usual.heads, 1, 1 << 20},
     {"tie-embeddings", "the head's weight is the token embedding's",
      usual.tie_embeddings},
     {"dropout",
      "probability with which values of the embeddings, of attention's weights "
      "and of what attention and MLP add are set to 0 in training",
      usual.dropout, 0.0, 1.0, true}},
    [](const option_values& values, const text_batch_options& data) {
      const gpt_options sizes{whole(values, "d-model"),
                              whole(values, "layers"),
                              whole(values, "heads"),
                              data.length,
                              data.vocabulary,
                              data.seed,
                              std::get<bool>(values.at("tie-embeddings")),
                              std::get<double>(values.at("dropout"))};
      const auto blocks = static_cast<std::int32_t>(sizes.layers);
      return built_model{gpt(sizes), {1, 1 + blocks}, parameter_count(sizes)};
    },
    sizes_of_gpt};
}

}  // namespace troupe
