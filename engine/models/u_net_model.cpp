#include "troupe/engine/models/registry.hpp"

namespace troupe {

model_entry gpt_model();

/// A GPT of the same sizes, whose blocks of the second half also read the
/// output of their mirror image in the first half.
model_entry u_net_model() {
  auto entry = gpt_model();
  entry.name = "u_net";
  entry.summary =
    "a GPT whose later blocks also read those of the first half, mirrored";
  entry.build = [build = std::move(entry.build)](const auto&... arguments) {
    auto result = build(arguments...);
    auto& layers = result.layers;
    auto [left, right] = result.blocks;
    for (--right; left < right - 1; ++left, --right) {
      const auto name = [&](std::int32_t i) {
        return layers[static_cast<std::size_t>(i)].name;
      };
      layers[static_cast<std::size_t>(right)].reads = {{name(right - 1)},
                                                       {name(left)}};
    }
    return result;
  };
  return entry;
}

}  // namespace troupe
