#include "troupe/engine/models/model_folder.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "../../files.hpp"
#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/models/decoders/lora.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using namespace troupe::testing;
using nlohmann::json;

namespace {

json llama_config() {
  return {{"model_type", "llama"},
          {"vocab_size", 11},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"max_position_embeddings", 16},
          {"torch_dtype", "bfloat16"}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

parameter_list all_of(const model& layers) {
  parameter_list all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto module = make_layer(layers, i);
    for (const auto& [name, value] : parameters_of(layers[i].name, *module))
      all.emplace_back(name, value.detach());
  }
  return all;
}

/// A folder with a new model and a meaningless tokenizer.
struct sample_folder {
  explicit sample_folder(const json& config = llama_config()) {
    path.write("config.json", config.dump(2));
    path.write("tokenizer.json", "{}");
    const model_folder folder(path / "", folder_use::from_scratch);
    folder.save(path / "made", all_of(folder.build(at::kFloat, 1).layers), {},
                at::kBFloat16, 1 << 30);
  }
  std::string source() const { return path / "made"; }
  std::string file(const std::string& name) const {
    return source() + "/" + name;
  }
  parameter_list tensors() const {
    return read_safetensors(file("model.safetensors"));
  }
  void rewrite(const parameter_list& tensors) const {
    write_safetensors(file("model.safetensors"), tensors);
  }
  void refused(const std::string& why) const {
    INFO(why);
    CHECK_THROWS_MATCHES(model_folder(source()), error, says(why));
  }

  temporary_folder path;
};

}  // namespace

TEST_CASE("a model that was read and saved has the same bytes") {
  const sample_folder at;
  for (const std::int64_t most : {std::int64_t{1} << 30, std::int64_t{300}}) {
    const model_folder folder(at.source());
    const auto target = at.path / fmt::format("copy{}", most);
    folder.save(target, all_of(folder.build(at::kFloat, 1).layers), {}, {},
                most);
    const auto copy = open_weights(target);
    CHECK((copy.all().size() == 1) == (most > 1000));
    for (const auto& [name, value] : at.tensors()) {
      INFO(name);
      REQUIRE(copy.find(name));
      CHECK(copy.read(name).equal(value));
      CHECK(copy.read(name).scalar_type() == at::kBFloat16);
    }
    CHECK(copy.entries().size() == at.tensors().size());
    CHECK(content(target + "/config.json") == content(at.file("config.json")));
    CHECK(content(target + "/tokenizer.json") == "{}");
  }
}

TEST_CASE("weights are converted, and the configuration says so") {
  const sample_folder at;
  const model_folder folder(at.source());
  const auto layers = folder.build(at::kFloat, 1).layers;
  CHECK(all_of(layers)[0].second.scalar_type() == at::kFloat);
  CHECK(
    all_of(layers)[0].second.to(at::kBFloat16).equal(at.tensors()[0].second));
  folder.save(at.path / "fp16", all_of(layers), {}, at::kHalf, 1 << 30);
  CHECK(json::parse(content(at.path / "fp16/config.json"))["torch_dtype"]
        == "float16");
  CHECK_THROWS_MATCHES(folder.save(at.path / "fp16", {}, {}, {}, 1), error,
                       says("fp16: can't be put in place: "));
}

TEST_CASE("a configuration keeps its dtype where weights keep theirs") {
  auto config = llama_config();
  const sample_folder at(config);
  config["torch_dtype"] = "float32";  // the weights are bf16
  const auto text = config.dump(1);
  std::ofstream(at.file("config.json")) << text;
  const model_folder folder(at.source());
  folder.save(at.path / "copy", all_of(folder.build(at::kFloat, 1).layers), {},
              {}, 1 << 30);
  CHECK(content(at.path / "copy/config.json") == text);
}

TEST_CASE("published names without the model's prefix are found and kept") {
  const sample_folder at({{"model_type", "gpt2"},
                          {"vocab_size", 11},
                          {"n_embd", 8},
                          {"n_layer", 1},
                          {"n_head", 2},
                          {"n_positions", 8},
                          {"attn_pdrop", 0},
                          {"embd_pdrop", 0},
                          {"resid_pdrop", 0}});
  parameter_list tensors;
  for (const auto& [name, value] : at.tensors())
    tensors.emplace_back(name.substr(name.find('.') + 1), value);
  tensors.emplace_back("h.0.attn.bias", at::zeros({1, 1, 8, 8}));
  at.rewrite(tensors);
  const model_folder folder(at.source());
  folder.save(at.path / "copy", all_of(folder.build(at::kFloat, 1).layers), {},
              {}, 1 << 30);
  const auto copy = open_weights(at.path / "copy");
  CHECK(copy.entries().size() == tensors.size());
  for (const auto& [name, value] : tensors) {
    REQUIRE(copy.find(name));
    CHECK(copy.read(name).equal(value));
  }
}

TEST_CASE("adapters are saved as PEFT does, or merged") {
  const sample_folder at;
  const model_folder folder(at.source());
  const lora_options lora{
    .rank = 2, .alpha = 6, .modules = "*.1.*.q_proj,up_proj"};
  const auto layers = folder.build(at::kFloat, 1, {.lora = lora}).layers;
  auto all = all_of(layers);
  for (const auto& [name, value] : all)
    if (name.ends_with(".lora_B.weight"))
      value.fill_(0.5);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] :
         parameters_of(layers[i].name, *make_layer(layers, i)))
      CHECK(value.requires_grad() == is_adapter(name));

  save_adapter(at.path / "adapter", all, lora, false, folder.path());
  const safetensors_file file(at.path / "adapter/adapter_model.safetensors");
  std::vector<std::string> names;
  for (const auto& entry : file.entries())
    names.push_back(entry.name);
  CHECK(names
        == std::vector<std::string>{
          "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight",
          "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight",
          "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
          "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight",
          "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight",
          "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"});
  const auto config =
    json::parse(content(at.path / "adapter/adapter_config.json"));
  CHECK(config["r"] == 2);
  CHECK(config["lora_alpha"] == 6);
  CHECK(config["target_modules"].size() == 3);

  folder.save(at.path / "merged", all, lora, at::kFloat, 1 << 30);
  const auto merged = open_weights(at.path / "merged");
  CHECK(merged.entries().size() == at.tensors().size());
  const std::map<std::string, at::Tensor> by_name(all.begin(), all.end());
  const std::string q = "model.layers.1.self_attn.q_proj";
  const auto change =
    by_name.at(q + ".lora_B.weight").mm(by_name.at(q + ".lora_A.weight"));
  CHECK(at::allclose(merged.read(q + ".weight"),
                     by_name.at(q + ".weight") + 3 * change));
  CHECK(merged.read("model.layers.0.self_attn.q_proj.weight")
          .equal(by_name.at("model.layers.0.self_attn.q_proj.weight")));
  CHECK_THROWS_MATCHES(
    folder.build(at::kFloat, 1, {.lora = {.rank = 1, .modules = "x"}}), error,
    says("--lora-modules x: matches no linear module; they "
         "are down_proj, gate_proj"));
}

TEST_CASE("broken weights are refused by name, before any work") {
  const sample_folder at;
  const auto good = at.tensors();
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(i));
    at.rewrite(bad);
    at.refused("has no " + good[i].first);
    bad = good;
    bad[i].second = at::zeros({3, 2});
    at.rewrite(bad);
    at.refused("has " + good[i].first + " of shape [3, 2]");
    bad = good;
    bad[i].second = bad[i].second.to(at::kInt);
    at.rewrite(bad);
    at.refused("has " + good[i].first + " of Int");
  }
  auto more = good;
  more.emplace_back("model.layers.2.x.weight", at::zeros({1}));
  at.rewrite(more);
  at.refused(
    "has model.layers.2.x.weight, which the model of config.json does");
  write(at.file("model.safetensors"), "short");
  at.refused("model.safetensors");
  std::filesystem::remove(at.file("model.safetensors"));
  write(at.file("pytorch_model.bin"), "pickled");
  at.refused("; convert its pytorch_model.bin with save_pretrained");
}

TEST_CASE("an index that does not fit its parts is refused") {
  const sample_folder at;
  const auto good = at.tensors();
  const auto half = good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2);
  std::filesystem::remove(at.file("model.safetensors"));
  write_safetensors(at.file("a.safetensors"), {good.begin(), half});
  write_safetensors(at.file("b.safetensors"), {half, good.end()});
  json map;
  for (const auto& [name, value] : good)
    map[name] = name == half->first ? "b.safetensors" : "a.safetensors";
  for (auto each = half; each != good.end(); ++each)
    map[each->first] = "b.safetensors";
  const auto index = [&](const json& fields) {
    write(at.file("model.safetensors.index.json"), fields.dump());
  };
  index({{"weight_map", map}});
  CHECK_NOTHROW(model_folder(at.source()));
  index(json::array());
  at.refused("is not a JSON object");
  index(json::object());
  at.refused("has no weight_map");
  index({{"weight_map", {{"x", 1}}}});
  at.refused("names '' as the part of x");
  index({{"weight_map", {{"x", "../a.safetensors"}}}});
  at.refused("names '../a.safetensors' as the part of x");
  auto lies = map;
  lies[good[0].first] = "b.safetensors";
  index({{"weight_map", lies}});
  at.refused("says that " + good[0].first + " is in b.safetensors");
  lies = map;
  lies["nobody"] = "a.safetensors";
  index({{"weight_map", lies}});
  at.refused("says that nobody is in a.safetensors");
  lies = map;
  lies[good[0].first] = "c.safetensors";
  index({{"weight_map", lies}});
  at.refused("c.safetensors");
  write_safetensors(at.file("c.safetensors"), {good[0]});
  at.refused("as");
}

TEST_CASE("fields that are wrong or not understood are refused by name") {
  const auto refused = [](const std::string& name, const json& value,
                          const std::string& why) {
    auto fields = llama_config();
    if (value.is_discarded())
      fields.erase(name);
    else
      fields[name] = value;
    INFO(name << " " << value.dump());
    CHECK_THROWS_MATCHES(model_of_config(fields.dump(), "config.json"), error,
                         says(why));
  };
  for (const auto* name :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings"})
    for (const json& value :
         {json(json::value_t::discarded), json(nullptr), json(0), json(-3),
          json(1.5), json("8"), json(true), json(std::int64_t{1} << 50)})
      refused(name, value, std::string("config.json: ") + name);
  for (const auto* name : {"tie_word_embeddings", "attention_bias", "mlp_bias"})
    refused(name, 1, std::string(name) + " is 1, not true or false");
  refused("model_type", "bert", "model_type is 'bert'; supported: llama");
  refused("model_type", json(json::value_t::discarded),
          "model_type is missing");
  refused("hidden_act", "prelu", "there is no activation function 'prelu'");
  refused("quantization_config", json::object(),
          "quantization_config is not understood");
  refused("num_key_value_heads", 3, "multiple of the key and value heads");
  refused("rope_scaling", json{{"type", "su"}}, "rope_type is 'su'");
  refused("rope_scaling", json{{"type", "linear"}}, "factor is missing");
  refused("rope_scaling", json{{"type", "linear"}, {"factor", 0.5}},
          "less than 1");
  refused("rope_scaling", json{{"type", "linear"}, {"factor", 2}, {"x", 1}},
          "rope_scaling.x is not understood");
  refused("rope_scaling", json{{"type", "longrope"}, {"short_factor", {1}}},
          "short_factor has 1 numbers, not 2");
  refused("is_encoder_decoder", true, "is_encoder_decoder is true; supported");
  CHECK_THROWS_MATCHES(model_of_config("[]", "config.json"), error,
                       says("is not a JSON object"));
}

namespace {

/// A value for a field, possibly an invalid one.
json odd_value(const json& other, std::mt19937& random) {
  const json values[] = {nullptr,
                         -1,
                         0,
                         1,
                         3,
                         1.5,
                         std::int64_t{1} << 39,
                         1e300,
                         "x",
                         "",
                         true,
                         json::array(),
                         json::array({1, "a"}),
                         json::object(),
                         other};
  return values[random() % std::size(values)];
}

/// Drops, swaps and replaces fields, also those of nested objects.
void mutate(json& fields, std::mt19937& random) {
  std::vector<std::string> names;
  for (const auto& each : fields.items())
    names.push_back(each.key());
  if (names.empty())
    return;
  const auto& name = names[random() % names.size()];
  const auto& other = names[random() % names.size()];
  auto& value = fields[name];
  switch (random() % 4) {
    case 0:
      fields.erase(name);
      break;
    case 1:
      std::swap(value, fields[other]);
      break;
    case 2:
      if (value.is_object())
        return mutate(value, random);
      [[fallthrough]];
    default:
      value = odd_value(fields[other], random);
  }
}

}  // namespace

TEST_CASE("configurations with odd fields are refused or make a model") {
  std::mt19937 random(1);
  int accepted = 0, refused = 0;
  for (const auto* type : {"llama", "mistral", "qwen2", "qwen3", "olmo2",
                           "gpt2", "gpt_neox", "mixtral", "qwen3_moe"}) {
    const safetensors_file file(fmt::format(
      TROUPE_SOURCE_DIR "/tests/golden/models/{}.safetensors", type));
    for (int i = 0; i < 150; ++i) {
      auto fields = json::parse(file.metadata().at(
        fmt::format("{}.{}", i % 2 ? "config" : "config_v4", i / 2 % 10)));
      for (auto count = random() % 4 + 1; count > 0; --count)
        mutate(fields, random);
      const auto text = fields.dump();
      INFO(text);
      try {
        model_config config(text, "config.json");
        const auto layers = decoder(read_decoder(config), nullptr);
        make_layer_shapes(layers, 0);
        make_layer_shapes(layers, 1);
        ++accepted;
      } catch (const error& why) {
        ++refused;
        CHECK(std::string(why.what()).size() > 10);
      }
    }
  }
  CHECK(accepted > 50);
  CHECK(refused > 500);
}
