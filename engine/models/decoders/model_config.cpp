#include "troupe/engine/models/decoders/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

using nlohmann::json;

json parsed_object(const std::string& text, const std::string& origin) {
  constexpr int most_levels = 32;
  const auto refuse = [&](const std::string& why) {
    fail(error_code::invalid_checkpoint, "{}: {}", printable(origin), why);
  };
  if (json_levels(text) > most_levels)
    refuse(fmt::format("is nested in more than {} levels", most_levels));
  json fields;
  try {
    fields = json::parse(text);
  } catch (const json::exception& reason) {
    refuse(fmt::format("is not JSON: {}", printable(reason.what())));
  }
  if (!fields.is_object())
    refuse("is not a JSON object");
  return fields;
}

namespace {

/// Fields that training does not compute with: those for transformers itself,
/// its outputs and other tasks, the tokenizer and generation, and those of
/// published models that nothing reads.
constexpr std::initializer_list<const char*> ignored_fields{
  "_attn_implementation",
  "_attn_implementation_autoset",
  "_commit_hash",
  "_flash_attn_2_enabled",
  "_name_or_path",
  "_num_labels",
  "architectures",
  "assistant_confidence_threshold",
  "assistant_early_exit",
  "assistant_lookbehind",
  "attn_implementation",
  "auto_map",
  "bad_words_ids",
  "begin_suppress_tokens",
  "bos_token_id",
  "cross_attention_hidden_size",
  "custom_pipelines",
  "decoder_start_token_id",
  "diversity_penalty",
  "do_sample",
  "dtype",
  "early_stopping",
  "encoder_no_repeat_ngram_size",
  "encoder_repetition_penalty",
  "eos_token_id",
  "epsilon_cutoff",
  "eta_cutoff",
  "experts_implementation",
  "exponential_decay_length_penalty",
  "finetuning_task",
  "forced_bos_token_id",
  "forced_eos_token_id",
  "gradient_checkpointing",
  "id2label",
  "keys_to_ignore_at_inference",
  "label2id",
  "length_penalty",
  "max_length",
  "max_new_tokens",
  "max_sequence_length",
  "model_max_length",
  "min_length",
  "model_type",
  "name_or_path",
  "no_repeat_ngram_size",
  "num_assistant_tokens",
  "num_assistant_tokens_schedule",
  "num_beam_groups",
  "num_beams",
  "num_labels",
  "num_return_sequences",
  "output_attentions",
  "output_hidden_states",
  "output_past",
  "output_scores",
  "pad_token_id",
  "prefix",
  "pretraining_tp",
  "problem_type",
  "remove_invalid_values",
  "repetition_penalty",
  "return_dict",
  "return_dict_in_generate",
  "sep_token_id",
  "suppress_tokens",
  "target_lookbehind",
  "task_specific_params",
  "temperature",
  "tf_legacy_loss",
  "tokenizer_class",
  "top_k",
  "top_p",
  "torch_dtype",
  "torchscript",
  "transformers.js_config",
  "transformers_version",
  "typical_p",
  "unk_token_id",
  "unsloth_fixed",
  "unsloth_version",
  "use_bfloat16",
  "use_cache"};

}  // namespace

model_config::model_config(const std::string& text, std::string origin)
  : model_config(parsed_object(text, origin), origin, std::string()) {
  ignore(ignored_fields);
  require("add_cross_attention", {false});
  require("chunk_size_feed_forward", {0});
  require("is_decoder", {false, true});
  require("is_encoder_decoder", {false});
  require("pruned_heads", {json::object()});
  require("tie_encoder_decoder", {false});
  // Published models have these; transformers reads none of them.
  require("is_llama_config", {true});
  require("rope_interleaved", {false});
  require("use_mrope", {false});
}

model_config::model_config(json fields, std::string origin, std::string path)
  : fields_(std::move(fields)),
    origin_(std::move(origin)),
    path_(std::move(path)) {}

void model_config::refuse(const std::string& name,
                          const std::string& why) const {
  fail(error_code::invalid_checkpoint, "{}: {}{} {}", printable(origin_), path_,
       printable(name), why);
}

const json* model_config::find(const std::string& name) {
  noted_.insert(name);
  const auto found = fields_.find(name);
  return found == fields_.end() || found->is_null() ? nullptr : &*found;
}

const json& model_config::get(const std::string& name) {
  if (const auto* found = find(name))
    return *found;
  refuse(name, "is missing");
}

bool model_config::has(const std::string& name) const {
  const auto found = fields_.find(name);
  return found != fields_.end() && !found->is_null();
}

std::int64_t model_config::whole(const std::string& name,
                                 std::optional<std::int64_t> usual,
                                 std::int64_t least, std::int64_t most) {
  const auto* found = usual ? find(name) : &get(name);
  if (!found)
    return *usual;
  const auto value = json_as<std::int64_t>(*found).value_or(least - 1);
  if (value < least || value > most)
    refuse(name, fmt::format("is {}, not a whole number from {} to {}",
                             printable(found->dump()), least, most));
  return value;
}

model_config model_config::inner(const std::string& name) {
  const auto& found = get(name);
  if (!found.is_object())
    refuse(name, "is not an object");
  return {found, origin_, path_ + name + "."};
}

void model_config::require(const std::string& name,
                           std::initializer_list<json> values) {
  const auto* found = find(name);
  if (!found || std::ranges::find(values, *found) != values.end())
    return;
  const auto texts = values | std::views::transform([](const json& each) {
                       return each.dump();
                     });
  refuse(name, fmt::format("is {}; supported: {}", printable(found->dump()),
                           fmt::join(texts, ", ")));
}

void model_config::ignore(std::initializer_list<const char*> names) {
  noted_.insert(names.begin(), names.end());
}

void model_config::finish() const {
  for (const auto& [name, value] : fields_.items())
    if (!noted_.contains(name) && !value.is_null())
      refuse(name,
             "is not understood: it may change what the model computes; remove "
             "it if it does not");
}

}  // namespace troupe
