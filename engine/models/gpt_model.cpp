#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe {

model_entry gpt_model() {
  const gpt_options usual;
  return {
    "gpt",
    "a GPT; its layers are the embeddings, the blocks and the head",
    {{"d-model", "width", usual.width, 1, 1 << 20},
     {"layers", "transformer blocks", usual.layers, 1, 1 << 16},
     {"heads", "attention heads", usual.heads, 1, 1 << 20}},
    [](const option_values& values, const text_batch_options& data) {
      const gpt_options sizes{whole(values, "d-model"), whole(values, "layers"),
                              whole(values, "heads"),   data.length,
                              data.vocabulary,          data.seed};
      const auto blocks = static_cast<std::int32_t>(sizes.layers);
      return built_model{gpt(sizes), {1, 1 + blocks}, parameter_count(sizes)};
    }};
}

}  // namespace troupe
