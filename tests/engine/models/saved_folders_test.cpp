// What saving a model folder does besides writing its weights.
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../files.hpp"
#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/fresh_folder.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/models/companion_files.hpp"
#include "troupe/engine/models/decoders/lora.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr auto small_gpt2 =
  R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_layer": 1,
      "n_head": 2, "n_positions": 8, "attn_pdrop": 0, "embd_pdrop": 0,
      "resid_pdrop": 0})";

}  // namespace

TEST_CASE("leftovers of a killed writer of a folder are removed") {
  const temporary_folder at;
  std::filesystem::create_directories(at / "out.troupe-0123abcd/inside");
  at.write("out.troupe-0123abcd/model.safetensors", "x");
  for (const auto* other :
       {"out.troupe-0123abc", "out.troupe-0123abcg", "out2.troupe-0123abcd"})
    std::filesystem::create_directory(at / other);
  fresh_folder first(at / "out/");
  CHECK(!std::filesystem::exists(at / "out.troupe-0123abcd"));
  CHECK(std::filesystem::exists(at / "out.troupe-0123abc"));
  CHECK(std::filesystem::exists(at / "out.troupe-0123abcg"));
  CHECK(std::filesystem::exists(at / "out2.troupe-0123abcd"));
  {
    const fresh_folder second(at / "out");
    CHECK(std::filesystem::exists(first.file("")));
    CHECK(second.file("") != first.file(""));
  }
  first.keep();
  CHECK(std::filesystem::is_directory(at / "out"));
}

TEST_CASE("values beyond the range of fp16 are refused") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  const model_folder fresh(at / "", folder_use::from_scratch);
  plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
  auto parameters = loop.parameters();
  parameters[0].second = at::full({11, 8}, 1e6);
  const auto name = parameters[0].first;
  CHECK_THROWS_MATCHES(
    fresh.save(at / "half", parameters, {}, at::kHalf, 1 << 20), error,
    says(name + " has values beyond the range of fp16"));
  CHECK(!std::filesystem::exists(at / "half"));
  fresh.save(at / "wide", parameters, {}, at::kBFloat16, 1 << 20);
  const model_folder wide(at / "wide");
  CHECK_NOTHROW(make_layer(wide.build(at::kFloat, 1).layers, 0));
  CHECK_THROWS_MATCHES(make_layer(wide.build(at::kHalf, 1).layers, 0), error,
                       says("model.safetensors: has " + name
                            + " with values beyond the range of fp16"));
}

TEST_CASE("a folder's layers have the same parameters on the meta device") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  const model_folder fresh(at / "", folder_use::from_scratch);
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const std::int64_t rank : {0, 2}) {
      const auto layers =
        fresh.build(dtype, 1, {.lora = {.rank = rank}}).layers;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto& name = layers[i].name;
        const auto values = parameters_of(name, *make_layer(layers, i));
        const auto shapes = parameters_of(name, *make_layer_shapes(layers, i));
        REQUIRE(values.size() == shapes.size());
        for (std::size_t p = 0; p < values.size(); ++p) {
          const auto& [own, value] = values[p];
          const auto& [other, shape] = shapes[p];
          INFO(own);
          CHECK(own == other);
          CHECK(shape.is_meta());
          CHECK(value.sizes() == shape.sizes());
          CHECK(value.scalar_type() == shape.scalar_type());
          CHECK(value.requires_grad() == shape.requires_grad());
        }
      }
    }
}

TEST_CASE("an adapter is merged with the precision of what is saved") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  const model_folder fresh(at / "", folder_use::from_scratch);
  const lora_options lora{.rank = 2, .alpha = 2, .modules = "c_attn"};
  plain_loop loop(fresh.build(at::kBFloat16, 1, {.lora = lora}).layers, {});
  const auto parameters = loop.parameters();
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, value] : parameters) {
    all[name] = value.detach();
    if (name.ends_with("lora_B.weight"))
      all[name].fill_(1e-3);
  }
  fresh.save(at / "out", parameters, lora, at::kFloat, 1 << 20);
  const auto wide = [&](const std::string& name) {
    return all.at("transformer.h.0.attn.c_attn." + name).to(at::kFloat);
  };
  const auto change = wide("lora_B.weight").mm(wide("lora_A.weight")).t();
  const auto saved =
    open_weights(at / "out").read("transformer.h.0.attn.c_attn.weight");
  CHECK(saved.equal(wide("weight") + change));
  CHECK_FALSE(saved.equal(saved.to(at::kBFloat16).to(at::kFloat)));
  fresh.save(at / "narrow", parameters, lora, {}, 1 << 20);
  CHECK(open_weights(at / "narrow")
          .read("transformer.h.0.attn.c_attn.weight")
          .equal(saved.to(at::kBFloat16)));
}

TEST_CASE("files of known names are copied, and links within the folder") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  for (const auto* name :
       {"tokenizer.model", "merges.txt", "chat_template.jinja", "x.onnx",
        "rust_model.ot", "adapter_config.json", "adapter_model.safetensors",
        "64.tflite", "model.ckpt", "pytorch_model.bin", "tf_model.h5"})
    at.write(name, name);
  at.write("LICENSE.txt", "a licence");
  at.write("passwords.txt", "of somebody");
  std::filesystem::create_symlink("nowhere", at / "NOTICE");
  for (const auto* folder : {"additional_chat_templates", "onnx"}) {
    std::filesystem::create_directory(at / folder);
    at.write(std::string(folder) + "/tool.jinja", folder);
  }
  std::filesystem::create_symlink("merges.txt", at / "vocab.bpe");
  std::filesystem::create_symlink("nowhere",
                                  at / "additional_chat_templates/gone.jinja");
  require_copyable(at / "");
  const model_folder fresh(at / "", folder_use::from_scratch);
  plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
  fresh.save(at / "out", loop.parameters(), {}, {}, 1 << 20);
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(at / "out"))
    names.push_back(each.path().filename());
  std::ranges::sort(names);
  CHECK(names
        == std::vector<std::string>{"LICENSE.txt", "additional_chat_templates",
                                    "chat_template.jinja", "config.json",
                                    "merges.txt", "model.safetensors",
                                    "tokenizer.model", "vocab.bpe"});
  CHECK(content(at / "out/vocab.bpe") == "merges.txt");
  CHECK(content(at / "out/additional_chat_templates/tool.jinja")
        == "additional_chat_templates");
}

TEST_CASE("a link out of a model's folder is not followed") {
  for (const std::string name :
       {"chat_template.jinja", "LICENSE", "NOTICE", "tokenizer.json",
        "additional_chat_templates/tool.jinja"}) {
    const temporary_folder at;
    at.write("secret", "of somebody else");
    std::filesystem::create_directories(at / "model/additional_chat_templates");
    at.write("model/config.json", small_gpt2);
    std::filesystem::create_symlink(at / "secret", at / ("model/" + name));
    const auto says_out = says(name + ": is a link out of the model's folder");
    CHECK_THROWS_MATCHES(require_copyable(at / "model"), error, says_out);
    const model_folder fresh(at / "model", folder_use::from_scratch);
    plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
    CHECK_THROWS_MATCHES(
      fresh.save(at / "out", loop.parameters(), {}, {}, 1 << 20), error,
      says("holds the weights, but not all other files"));
    CHECK_FALSE(std::filesystem::exists(at / ("out/" + name)));
  }
}

TEST_CASE("links of Hugging Face's cache to its blobs are followed") {
  const temporary_folder at;
  const std::string snapshot = "models--a--b/snapshots/0123";
  std::filesystem::create_directories(at / snapshot);
  std::filesystem::create_directories(at / "models--a--b/blobs");
  std::filesystem::create_directories(at / "models--c--d/blobs");
  at.write("models--a--b/blobs/77", "a licence");
  at.write("models--c--d/blobs/78", "another model's");
  std::filesystem::create_symlink("../../blobs/77",
                                  at / (snapshot + "/LICENSE"));
  std::filesystem::create_directory(at / "out");
  copy_companions(at / snapshot, at / "out");
  CHECK(content(at / "out/LICENSE") == "a licence");
  std::filesystem::create_symlink("../../../models--c--d/blobs/78",
                                  at / (snapshot + "/NOTICE"));
  CHECK_THROWS_MATCHES(require_copyable(at / snapshot), error,
                       says("NOTICE: is a link out of"));
}

TEST_CASE(
  "an adapter beside the weights is refused, which nothing would read") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  at.write("adapter_config.json", "{}");
  const model_folder fresh(at / "", folder_use::from_scratch);
  plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
  fresh.save(at / "out", loop.parameters(), {}, {}, 1 << 20);
  CHECK_NOTHROW(model_folder(at / "out"));
  at.write("out/adapter_config.json", "{}");
  CHECK_THROWS_MATCHES(
    model_folder(at / "out"), error,
    says("out/adapter_config.json: the folder holds an adapter"));
}

TEST_CASE("a folder whose place was taken stays beside it") {
  const temporary_folder at;
  fresh_folder fresh(at / "out");
  std::ofstream(fresh.file("weights")) << "kept";
  at.write("out", "of somebody else");
  CHECK_THROWS_MATCHES(
    fresh.keep(), error,
    says("out: can't be put in place: Not a directory; the new folder is "
         + (at / "out.saved-")));
  CHECK(content(at / "out") == "of somebody else");
  const fresh_folder next(at / "out");  // removes what a killed one left
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(at / ""))
    if (each.path().filename().string().starts_with("out.saved-"))
      names.push_back(content(each.path() / "weights"));
  CHECK(names == std::vector<std::string>{"kept"});
}

TEST_CASE("a configuration names its dtype in each field that it has") {
  for (const std::vector<std::string>& names_before :
       {std::vector<std::string>{"dtype", "torch_dtype"},
        {"dtype"},
        {"torch_dtype"},
        {}}) {
    const temporary_folder at;
    auto fields = nlohmann::json::parse(small_gpt2);
    for (const auto& name : names_before)
      fields[name] = "float32";
    at.write("config.json", fields.dump());
    const model_folder fresh(at / "", folder_use::from_scratch);
    plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
    fresh.save(at / "out", loop.parameters(), {}, at::kBFloat16, 1 << 20);
    const auto saved = nlohmann::json::parse(content(at / "out/config.json"));
    const auto names =
      names_before.empty() ? std::vector<std::string>{"dtype"} : names_before;
    for (const auto& name : names)
      CHECK(saved[name] == "bfloat16");
    CHECK(saved.size() == fields.size() + (names_before.empty() ? 1 : 0));
  }
}

TEST_CASE("fields of published models that switch nothing on are accepted") {
  auto fields = nlohmann::json::parse(small_gpt2);
  for (const auto& [name, value] :
       std::map<std::string, bool>{{"is_llama_config", true},    // SmolLM2
                                   {"rope_interleaved", false},  // SmolLM2
                                   {"use_mrope", false}}) {      // Qwen2.5
    fields[name] = value;
    CHECK_NOTHROW(model_of_config(fields.dump(), "config.json"));
    auto other = fields;
    other[name] = !value;
    CHECK_THROWS_MATCHES(model_of_config(other.dump(), "config.json"), error,
                         says("config.json: " + name + " is "));
  }
}

TEST_CASE("fields that transformers does not read are accepted") {
  auto fields = nlohmann::json::parse(small_gpt2);
  fields["n_special"] = 0;  // gpt2-medium
  fields["predict_special_tokens"] = true;
  fields["_num_labels"] = 1;  // distilgpt2
  fields["output_past"] = true;
  fields["gradient_checkpointing"] = false;
  fields["max_sequence_length"] = 2048;  // early copies of Llama
  fields["model_max_length"] = 2048;     // of a tokenizer
  fields["max_new_tokens"] = 50;
  CHECK_NOTHROW(model_of_config(fields.dump(), "config.json"));
}

TEST_CASE("a configuration that is not JSON is refused with the place") {
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{
         {"{\"vocab_size\": NaN}", "is not JSON: "},
         {"{\"vocab_size\": NaN}", "line 1, column 16"},
         {"[]", "is not a JSON object"},
         {std::string(40, '[') + std::string(40, ']'), "more than 32 levels"}})
    CHECK_THROWS_MATCHES(model_of_config(text, "config.json"), error,
                         says("config.json: ") && says(why));
}

TEST_CASE("adapters are by default where PEFT has them") {
  for (const auto& config :
       {std::string{small_gpt2},
        std::string{R"({"model_type": "gpt_neox", "hidden_size": 8,
          "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 16,
          "intermediate_size": 8, "max_position_embeddings": 16})"}}) {
    const temporary_folder at;
    at.write("config.json", config);
    const model_folder fresh(at / "", folder_use::from_scratch);
    plain_loop loop(fresh.build(at::kFloat, 1, {.lora = {.rank = 2}}).layers,
                    {});
    for (const auto& [name, value] : loop.parameters())
      if (is_adapter(name))
        CHECK((name.find(".c_attn.") != name.npos
               || name.find(".query_key_value.") != name.npos));
  }
}

TEST_CASE("a tied head gets no adapter, which the embeddings would need too") {
  const temporary_folder at;
  at.write("config.json", small_gpt2);
  const model_folder fresh(at / "", folder_use::from_scratch);
  plain_loop loop(
    fresh.build(at::kFloat, 1, {.lora = {.rank = 2, .modules = "*"}}).layers,
    {});
  int adapters = 0;
  for (const auto& [name, value] : loop.parameters()) {
    CHECK(!name.starts_with("lm_head.lora"));
    adapters += is_adapter(name) ? 1 : 0;
  }
  CHECK(adapters == 8);
  CHECK_THROWS_MATCHES(
    fresh.build(at::kFloat, 1, {.lora = {.rank = 2, .modules = "lm_head"}}),
    error, says("--lora-modules lm_head: matches no linear module"));
}

TEST_CASE("an adapter of GPT-2's head is merged, which is not transposed") {
  const temporary_folder at;
  auto fields = nlohmann::json::parse(small_gpt2);
  fields["tie_word_embeddings"] = false;
  at.write("config.json", fields.dump());
  const model_folder fresh(at / "", folder_use::from_scratch);
  const lora_options lora{.rank = 2, .modules = "lm_head,c_fc"};
  plain_loop loop(fresh.build(at::kFloat, 1, {.lora = lora}).layers, {});
  auto parameters = loop.parameters();
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, value] : parameters) {
    if (name.ends_with("lora_B.weight"))
      value.detach().fill_(0.5);
    by_name[name] = value.detach();
  }
  fresh.save(at / "out", parameters, lora, {}, 1 << 20);
  for (const std::string module : {"lm_head", "transformer.h.0.mlp.c_fc"}) {
    const auto change = (lora.scale()
                         * by_name.at(module + ".lora_B.weight")
                             .mm(by_name.at(module + ".lora_A.weight")));
    const auto weight = by_name.at(module + ".weight");
    const auto merged =
      open_weights(at / "out").read(module + ".weight") - weight;
    CHECK(at::allclose(merged, module == "lm_head" ? change : change.t(), 1e-4,
                       1e-5));
  }
}
