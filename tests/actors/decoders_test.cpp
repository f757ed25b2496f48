// Decoders of Hugging Face's types train the plain loop's bits by schedules of
// all kinds.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <nlohmann/json.hpp>

#include "small_model.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Small, for the tokens of `small_text`; `tied`: if the type can be tied.
decoder_options small_decoder(const std::string& type, bool tied) {
  nlohmann::json fields{
    {"model_type", type}, {"vocab_size", 32}, {"tie_word_embeddings", tied}};
  if (type == "gpt2")
    fields.update({{"n_embd", 12},
                   {"n_layer", 4},
                   {"n_head", 2},
                   {"n_positions", 8},
                   {"attn_pdrop", 0},
                   {"embd_pdrop", 0},
                   {"resid_pdrop", 0}});
  else
    fields.update({{"hidden_size", 12},
                   {"intermediate_size", 20},
                   {"num_hidden_layers", 4},
                   {"num_attention_heads", 2},
                   {"max_position_embeddings", 8}});
  if (type != "gpt2" && type != "gpt_neox")
    fields.update({{"num_key_value_heads", 1}, {"head_dim", 8}});
  if (type == "mistral")
    fields.update({{"sliding_window", 3}});
  if (type == "mixtral" || type == "qwen3_moe")
    fields.update({{"num_local_experts", 3},
                   {"num_experts_per_tok", 2},
                   {"output_router_logits", true},
                   {"router_aux_loss_coef", 0.5}});
  if (type == "qwen3_moe")
    fields.update({{"moe_intermediate_size", 6}, {"decoder_sparse_step", 2}});
  model_config config(fields.dump(), type);
  return read_decoder(config);
}

}  // namespace

TEST_CASE("decoders of all types train the plain loop's bits") {
  const small_case cases[] = {
    {.schedule = "1f1b", .ranks = 3},
    {.schedule = "interleaved_zb", .stages_per_rank = 2, .clip = 0.5},
    {.schedule = "zb_v", .stages_per_rank = 2},
    {.schedule = "breadth_first",
     .stages_per_rank = 2,
     .data_parallel = 2,
     .recompute = true,
     .sharding = {.mode = shard_mode::all}},
    {.schedule = "seq_1f1b", .slices = 2},
    {.schedule = "dualpipe", .dtypes = {.parameters = at::kBFloat16}}};
  for (const auto& type : decoder_types())
    for (const auto& each : cases) {
      const bool tied =
        each.schedule != "dualpipe" && each.schedule != "interleaved_zb";
      auto options = small_decoder(type.name, tied);
      options.choices.loss_positions =
        each.slices > 1 ? 3 : 5;  // of 16, in parts
      options.choices.documents = each.stages_per_rank == 1;
      options.choices.router_loss = each.slices == 1;
      if (each.stages_per_rank > 1)
        options.choices.lora = {.rank = 2,
                                .modules = "*proj,c_*,dense*,*.mlp.*,lm_head"};
      const auto layers = decoder(options, fresh_parameters(options, 3));
      INFO(type.name << ": " << describe(each));
      const auto text = options.choices.documents
                          ? with_document_starts(small_text(), 3)
                          : small_text();
      CHECK(compare_with_plain(layers, each, 2, {}, text) == "");
    }
}
