// Changes of an index, and of a configuration.
#include <fmt/format.h>

#include "broken_folders.hpp"

namespace troupe::testing {

namespace fs = std::filesystem;

namespace {

// --------------------------------------------------------------- the index

/// Creates an index if the folder has none.
ordered index_of(const patient& at) {
  if (at.has_index())
    return at.read(index_name);
  const raw_weights file(content(at.path(single_name)));
  fs::rename(at.path(single_name), at.path("a.safetensors"));
  ordered index;
  for (const auto& name : file.names())
    index["weight_map"][name] = "a.safetensors";
  return index;
}

damage change_index(
  const patient& at,
  const std::function<damage(ordered& index, ordered& part)>& how) {
  auto index = index_of(at);
  std::vector<std::string> names;
  for (const auto& each : index["weight_map"].items())
    names.push_back(each.key());
  const auto tensor = at.one_of(names);
  auto done = how(index, index["weight_map"][tensor]);
  at.write(index_name, index.dump());
  done.named.push_back(tensor);
  return done;
}

damage name_odd_part(const patient& at) {
  return change_index(at, [&](ordered&, ordered& part) -> damage {
    part = at.one_of<ordered>(
      {"../a.safetensors", "/etc/passwd", "none.safetensors", "", ".", "..",
       "config.json", index_name, std::string("a.safetensors\0x", 15),
       part.get<std::string>() + "/", nullptr, 3, ordered::array(), "a\nb"});
    return {
      {part.is_string() ? part.get<std::string>() : "weight_map", "a\\x0Ab"}};
  });
}

damage name_other_part(const patient& at) {
  return change_index(at, [&](ordered&, ordered& part) -> damage {
    const auto before = part;
    part = at.weights();
    return {{}, part == before};
  });
}

/// Drops a tensor: harmless, as its part still holds it, unless no other tensor
/// names that part.
damage drop_from_index(const patient& at) {
  auto index = index_of(at);
  std::vector<std::string> names;
  for (const auto& each : index["weight_map"].items())
    names.push_back(each.key());
  const auto tensor = at.one_of(names);
  index["weight_map"].erase(tensor);
  at.write(index_name, index.dump());
  return {{tensor, index_name}, true};
}

damage add_to_index(const patient& at) {
  return change_index(at, [&](ordered& index, ordered& part) -> damage {
    index["weight_map"]["nobody"] = part;
    return {{"nobody"}};
  });
}

damage break_index(const patient& at) {
  const auto index = index_of(at);
  const auto text = index.dump();
  at.write(index_name, at.one_of<std::string>(
                         {"", "[]", "{}", "null", "{\"weight_map\": 3}",
                          "{\"weight_map\": {}}", "{\"weight_map\": []}",
                          text.substr(0, at.below(text.size())),
                          std::string(100'000, '['), text + "x"}));
  return {{index_name}};
}

damage lie_about_total(const patient& at) {
  return change_index(at, [&](ordered& index, ordered&) -> damage {
    index["metadata"] = at.one_of<ordered>(
      {{{"total_size", 1}}, {{"total_size", "x"}}, 3, nullptr});
    return {{}, true};
  });
}

// --------------------------------------------------- the configuration

damage change_config(const patient& at,
                     const std::function<damage(ordered& config)>& how) {
  auto config = at.read("config.json");
  auto done = how(config);
  at.write("config.json", config.dump());
  done.named.push_back("config.json");
  return done;
}

damage add_unknown_field(const patient& at) {
  return change_config(at, [&](ordered& config) -> damage {
    const auto name = at.one_of<std::string>(
      {"quantization_config", "sparsity", "num_experts_per_token", "x y",
       "attn_logit_softcapping", "partial", "layer_scale"});
    config[name] =
      at.one_of<ordered>({1, "x", ordered::object(), true, {1, 2}});
    return {{name}};
  });
}

damage add_harmless_field(const patient& at) {
  return change_config(at, [&](ordered& config) -> damage {
    config[at.one_of<std::string>(
      {"task_specific_params", "id2label", "eos_token_id", "auto_map",
       "transformers_version", "use_cache", "top_p"})] =
      at.one_of<ordered>({1, "x", ordered::object(), true, {1, 2}, -1});
    return {{}, true};
  });
}

/// A number that describes another model than the weights'.
damage disagree(const patient& at) {
  return change_config(at, [&](ordered& config) -> damage {
    const auto name = at.one_of<std::string>(
      {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
       "num_attention_heads", "num_key_value_heads", "head_dim"});
    const auto value = config[name].get<std::int64_t>();
    config[name] = at.one_of<std::int64_t>(
      {value + 1, 2 * value, 3 * value, 65'536, 1 << 24, value - 1});
    return {{"model.", "heads", "sizes", name, "num_"}};
  });
}

damage retype_field(const patient& at) {
  return change_config(at, [&](ordered& config) -> damage {
    const auto name = at.one_of<std::string>(
      {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
       "num_attention_heads", "num_key_value_heads", "hidden_act",
       "rms_norm_eps", "tie_word_embeddings", "rope_parameters", "model_type",
       "max_position_embeddings", "attention_dropout", "head_dim"});
    config[name] =
      at.one_of<ordered>({"seven", {1}, ordered::object({{"a", 1}}), -1e300});
    return {{name, "rope_parameters", "activation", "attention_dropout"},
            name == "rms_norm_eps"};
  });
}

damage nest_deeply(const patient& at) {
  const auto name =
    at.one_of<std::string>({"hidden_size", "hidden_act", "use_cache",
                            "rope_scaling", "new_field", "pruned_heads"});
  const auto text = content(at.path("config.json"));
  const auto depth = at.one_of<std::size_t>({100, 10'000, 300'000});
  const auto open = at.one_of<std::string>({"[", "{\"a\":"});
  std::string deep;
  for (std::size_t i = 0; i < depth; ++i)
    deep += open;
  deep += "1";
  deep += std::string(depth, open == "[" ? ']' : '}');
  at.write("config.json", fmt::format("{{\"{}\":{},{}", name, deep,
                                      text.substr(text.find('{') + 1)));
  return {{name, "config.json"}, true};
}

damage break_config(const patient& at) {
  const auto text = content(at.path("config.json"));
  at.write("config.json", at.one_of<std::string>(
                            {"", "[]", "3", "null", "\xff\xfe", text + "}",
                             text.substr(0, at.below(text.size()))}));
  return {{"config.json"}};
}

}  // namespace

const std::vector<change>& changes_of_texts() {
  static const std::vector<change> all{
    name_odd_part, name_other_part, drop_from_index,   add_to_index,
    break_index,   lie_about_total, add_unknown_field, add_harmless_field,
    disagree,      retype_field,    nest_deeply,       break_config};
  return all;
}

}  // namespace troupe::testing
