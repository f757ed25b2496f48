// Fields of config.json have the meaning that transformers 5 gives them, also
// where it ignores some or prefers one of two.
#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <nlohmann/json.hpp>

#include "../../says.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/models/decoders/rotary.hpp"
#include "troupe/engine/models/model_folder.hpp"

using namespace troupe;
using namespace troupe::testing;
using nlohmann::json;

namespace {

json config_of(const char* type, const json& more = json::object()) {
  json fields{{"model_type", type},
              {"vocab_size", 11},
              {"hidden_size", 8},
              {"intermediate_size", 12},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 2},
              {"num_key_value_heads", 2},
              {"num_experts_per_tok", 2},
              {"max_position_embeddings", 64}};
  if (std::string_view(type) != "mixtral")
    fields.erase("num_experts_per_tok");
  if (std::string_view(type) == "gpt_neox")
    fields.erase("num_key_value_heads");
  fields.update(more);
  return fields;
}

decoder_options read(const json& fields) {
  model_config config(fields.dump(), "config.json");
  return read_decoder(config);
}

json yarn(const json& more = json::object()) {
  json scaling{{"rope_type", "yarn"},
               {"factor", 4},
               {"original_max_position_embeddings", 16}};
  scaling.update(more);
  return scaling;
}

/// The rotary embedding of a model with this scaling.
rotary_options rotary_of(const json& scaling) {
  return read(config_of("llama", {{"rope_scaling", scaling}})).rotary;
}

}  // namespace

TEST_CASE("dropout is read, within its range") {
  CHECK(read(config_of("llama", {{"attention_dropout", 0.25}})).dropout
        == dropout_options{.attention = 0.25});
  for (const auto wrong : {-0.1, 1.5})
    CHECK_THROWS_MATCHES(
      read(config_of("llama", {{"attention_dropout", wrong}})), error,
      says("not a probability"));
}

TEST_CASE("missing fields of GPT-2's dropout mean that there is some") {
  const json fields{{"model_type", "gpt2"}, {"vocab_size", 11},
                    {"n_embd", 8},          {"n_layer", 1},
                    {"n_head", 2},          {"attn_pdrop", 0},
                    {"embd_pdrop", 0},      {"resid_pdrop", 0.0}};
  CHECK(read(fields).dropout == dropout_options{});
  auto missing = fields;
  for (const auto* name : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    missing.erase(name);
  CHECK(read(missing).dropout == dropout_options{0.1, 0.1, 0.1});
  // Checkpoints of both count as the same model.
  CHECK(differing_fields(missing.dump(), fields.dump(), "config.json").empty());
}

TEST_CASE("the older field of rotary scaling goes before the newer one") {
  const json newer{{"rope_type", "default"}, {"rope_theta", 500}};
  const auto both = read(
    config_of("qwen3", {{"rope_scaling", yarn()}, {"rope_parameters", newer}}));
  CHECK(both.rotary.kind == rotary_options::scaling::yarn);
  CHECK(both.rotary.base == 10'000);
  for (const auto& empty : {json::object(), json(nullptr)}) {
    const auto one = read(config_of(
      "qwen3", {{"rope_scaling", empty}, {"rope_parameters", newer}}));
    CHECK(one.rotary.kind == rotary_options::scaling::none);
    CHECK(one.rotary.base == 500);
  }
}

TEST_CASE("zeros of a YaRN scaling count as missing, and null as false") {
  const auto usual = rotary_attention_factor(rotary_of(yarn()));
  CHECK(rotary_attention_factor(
          rotary_of(yarn({{"mscale", 2}, {"mscale_all_dim", 1}})))
        != usual);
  CHECK(rotary_attention_factor(
          rotary_of(yarn({{"mscale", 0.0}, {"mscale_all_dim", 1}})))
        == usual);
  CHECK(rotary_attention_factor(
          rotary_of(yarn({{"mscale", 2}, {"mscale_all_dim", 0}})))
        == usual);
  const auto zeros = rotary_of(yarn({{"beta_fast", 0}, {"beta_slow", 0}}));
  CHECK(zeros.beta_fast == 32);
  CHECK(zeros.beta_slow == 1);
  CHECK(zeros.truncate);
  CHECK_FALSE(rotary_of(yarn({{"truncate", nullptr}})).truncate);
}

TEST_CASE("the token of padding is an index as Python has them") {
  CHECK(read(config_of("llama")).padding == -1);
  CHECK(read(config_of("llama", {{"pad_token_id", nullptr}})).padding == -1);
  CHECK(read(config_of("olmo2")).padding == 1);
  CHECK(read(config_of("olmo2", {{"pad_token_id", nullptr}})).padding == -1);
  for (const auto* type : {"llama", "olmo2", "mixtral"}) {
    CHECK(read(config_of(type, {{"pad_token_id", 3}})).padding == 3);
    CHECK(read(config_of(type, {{"pad_token_id", -1}})).padding == 10);
    CHECK(read(config_of(type, {{"pad_token_id", -11}})).padding == 0);
    for (const auto beyond : {11, -12})
      CHECK_THROWS_MATCHES(read(config_of(type, {{"pad_token_id", beyond}})),
                           error,
                           says("pad_token_id is " + std::to_string(beyond)
                                + ", not a whole number from -11 to 10"));
  }
}

TEST_CASE("a missing epsilon is the one of the type of model") {
  CHECK(read(config_of("llama")).epsilon == 1e-6);
  CHECK(read(config_of("mixtral")).epsilon == 1e-5);
  CHECK(read(config_of("olmo2")).epsilon == 1e-5);
}

TEST_CASE("names that transformers does not read may not say otherwise") {
  const auto same =
    read(config_of("gpt_neox", {{"rotary_emb_base", 99},
                                {"rope_theta", 99},
                                {"rotary_pct", 0.5},
                                {"partial_rotary_factor", 0.5}}));
  CHECK(same.rotary.base == 99);
  CHECK(same.rotary.dimensions == 2);
  CHECK_THROWS_MATCHES(
    read(config_of("gpt_neox", {{"rotary_emb_base", 99}, {"rope_theta", 100}})),
    error, says("rope_theta is 100; supported: 99.0"));
  CHECK_THROWS_MATCHES(
    read(config_of("gpt_neox", {{"partial_rotary_factor", 1}})), error,
    says("partial_rotary_factor is 1; supported: 0.25"));
}

TEST_CASE("a sliding window that is null is none, and a missing one is 4096") {
  for (const auto* type : {"qwen2", "qwen3", "qwen3_moe"}) {
    json fields = config_of(
      type, {{"use_sliding_window", true}, {"num_experts_per_tok", 2}});
    if (std::string_view(type) != "qwen3_moe") {
      fields.erase("num_experts_per_tok");
      fields["max_window_layers"] = 0;
    }
    CHECK(read(fields).windows == std::vector<std::int64_t>{4096, 4096});
    fields["sliding_window"] = 3;
    CHECK(read(fields).windows == std::vector<std::int64_t>{3, 3});
    fields["sliding_window"] = nullptr;
    CHECK(read(fields).windows == std::vector<std::int64_t>{0, 0});
  }
}

TEST_CASE("layers that slide need a window") {
  auto fields = config_of(
    "qwen3", {{"use_sliding_window", true},
              {"sliding_window", 3},
              {"layer_types", {"full_attention", "sliding_attention"}}});
  CHECK(read(fields).windows == std::vector<std::int64_t>{0, 3});
  for (const auto& [name, value] : {std::pair{"sliding_window", json(nullptr)},
                                    {"use_sliding_window", json(false)}}) {
    fields[name] = value;
    CHECK_THROWS_MATCHES(read(fields), error,
                         says("layer_types has a layer of 'sliding_attention', "
                              "and no sliding_window is in use"));
  }
}

TEST_CASE("a number of key heads is needed where it is not that of heads") {
  for (const auto& type : decoder_types()) {
    const auto name = std::string_view(type.name);
    if (name.starts_with("gpt"))
      continue;
    auto fields = config_of(type.name.c_str(), {{"num_experts_per_tok", 2}});
    if (name != "mixtral" && name != "qwen3_moe")
      fields.erase("num_experts_per_tok");
    CHECK(read(fields).key_heads == 2);
    const auto refused = [&] {
      CHECK_THROWS_MATCHES(read(fields), error,
                           says("num_key_value_heads is missing"));
    };
    fields["num_key_value_heads"] = nullptr;
    if (name == "qwen3_moe")
      refused();
    else
      CHECK(read(fields).key_heads == 2);
    fields.erase("num_key_value_heads");
    if (name == "llama" || name == "olmo2")
      CHECK(read(fields).key_heads == 2);
    else
      refused();
  }
}

TEST_CASE("a table has the rotations that are computed one by one") {
  rotary_options options;
  options.dimensions = 8;
  options.kind = rotary_options::scaling::dynamic;
  options.factor = 2;
  options.length = 40;
  rotary_table table(options);
  const auto require_same = [](const rotation& a, const rotation& b) {
    CHECK(at::equal(a.cosines, b.cosines));
    CHECK(at::equal(a.sines, b.sines));
  };
  const auto early = table.of(0, 3, at::kCPU);
  // Beyond 40 positions, all depend on the sequence's length.
  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{0, 3},
        {2, 7},
        {0, 40},
        {39, 1},
        {0, 41},
        {5, 60},
        {1, 2}})
    require_same(table.of(first, count, at::kCPU),
                 rotation_of(options, first, count, at::kCPU));
  require_same(early, rotation_of(options, 0, 3, at::kCPU));
}
