#include "troupe/engine/models/decoders/decoder_types.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>

namespace troupe {

namespace {

constexpr std::int64_t most_layers = 1 << 16;

/// A probability of dropout; `usual`: of a field that is missing.
double read_dropout(model_config& config, const char* name, double usual = 0) {
  const auto probability = config.number(name, usual);
  if (!(probability >= 0 && probability <= 1))
    config.refuse(name, fmt::format("is {}, not a probability", probability));
  return probability;
}

/// Where transformers has a default of its own for a missing field; null means
/// as many as there are heads.
void require_key_heads(const model_config& config) {
  if (!config.lists("num_key_value_heads"))
    config.refuse("num_key_value_heads", "is missing");
}

/// The token whose embedding is not trained; -1: none, which is the default
/// unless `usual` says otherwise. As in Python, a negative one is counted from
/// the vocabulary's end.
std::int64_t read_padding(model_config& config, std::int64_t vocabulary,
                          std::int64_t usual = -1) {
  const auto id =
    config.whole("pad_token_id", usual, -vocabulary, vocabulary - 1);
  return id < 0 && config.has("pad_token_id") ? id + vocabulary : id;
}

/// Sizes, norms, the activation, rotary embeddings and ties of a decoder with
/// RMSNorms and gated MLPs. `head_size`: if the fields don't say; 0: the
/// heads' share of the width. `base`: of rotary embeddings, likewise.
decoder_options read_gated(model_config& config, std::int64_t head_size = 0,
                           double base = 10'000) {
  decoder_options o;
  o.vocabulary = config.whole("vocab_size");
  o.width = config.whole("hidden_size");
  o.inner = config.whole("intermediate_size");
  o.layers = config.whole("num_hidden_layers", {}, 1, most_layers);
  o.heads = config.whole("num_attention_heads");
  o.key_heads = config.whole("num_key_value_heads", o.heads);
  if (head_size == 0)
    head_size = std::max(o.width / o.heads, std::int64_t{1});
  o.head_size = config.whole("head_dim", head_size);
  o.epsilon = config.number("rms_norm_eps", 1e-6);
  o.activation = config.text("hidden_act", "silu");
  o.deviation = o.residual_deviation = config.number("initializer_range", 0.02);
  o.tied = config.flag("tie_word_embeddings", false);
  o.padding = read_padding(config, o.vocabulary);
  o.rotary = read_rotary(config, o.head_size, base);
  if (o.rotary.dimensions != o.head_size)
    config.refuse("partial_rotary_factor", "must be 1 in this type of model");
  o.dropout.attention = read_dropout(config, "attention_dropout");
  return o;
}

/// What the older types have in common, whose width and heads are read:
/// LayerNorms, biases, MLPs without a gate. The names are those of the fields.
void set_plain(const model_config& config, decoder_options& o,
               const char* width, const char* heads) {
  if (o.width % o.heads != 0)
    config.refuse(width, fmt::format("is not a multiple of {}", heads));
  o.key_heads = o.heads;
  o.head_size = o.width / o.heads;
  o.norm = decoder_options::norm_kind::layer;
  o.mlp_bias = true;
  o.gated = false;
}

/// The window of sliding layers; 0: no layer slides. A missing window is 4096
/// and null means none, as in transformers.
std::int64_t read_window(model_config& config) {
  config.ignore({"sliding_window"});
  if (!config.flag("use_sliding_window", false))
    return 0;
  return config.whole("sliding_window",
                      config.lists("sliding_window") ? 0 : 4096);
}

/// `use_sliding_window` with `layer_types` or `max_window_layers`.
void read_windows(model_config& config, decoder_options& options) {
  const auto layers = static_cast<std::size_t>(options.layers);
  const auto window = read_window(config);
  const auto first = config.whole("max_window_layers", 28, 0);
  options.windows.assign(layers, 0);
  const bool by_layer = config.has("layer_types");
  const auto types = by_layer
                       ? config.read<std::vector<std::string>>("layer_types")
                       : std::vector<std::string>(layers);
  if (types.size() != layers)
    config.refuse("layer_types",
                  fmt::format("has {} entries, not {}", types.size(), layers));
  for (std::size_t i = 0; i < layers; ++i) {
    if (by_layer && types[i] != "sliding_attention"
        && types[i] != "full_attention")
      config.refuse("layer_types",
                    fmt::format("has a layer of '{}'", types[i]));
    if (by_layer && types[i] == "sliding_attention" && window == 0)
      config.refuse("layer_types",
                    "has a layer of 'sliding_attention', and no sliding_window "
                    "is in use");
    const bool slides = by_layer ? types[i] == "sliding_attention"
                                 : static_cast<std::int64_t>(i) >= first;
    options.windows[i] = slides ? window : 0;
  }
}

/// Llama 2, 3 and 3.1 (Touvron et al., 2023; Dubey et al., 2024).
decoder_options read_llama(model_config& config) {
  auto o = read_gated(config);
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.mlp_bias = config.flag("mlp_bias", false);
  return o;
}

/// Mistral 7B (Jiang et al., 2023): Llama with a sliding window.
decoder_options read_mistral(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config);
  const auto window = config.whole(
    "sliding_window", config.lists("sliding_window") ? 0 : 4096, 0);
  o.windows.assign(static_cast<std::size_t>(o.layers), window);
  return o;
}

/// Qwen 2 and 2.5 (Yang et al., 2024): biases of queries, keys and values.
decoder_options read_qwen2(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config);
  o.query_bias = true;
  read_windows(config, o);
  return o;
}

/// Qwen 3 (Yang et al., 2025): norms of each head's queries and keys.
decoder_options read_qwen3(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config, 128);
  o.query_norms = decoder_options::query_norm::head;
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  read_windows(config, o);
  return o;
}

/// OLMo 2 (OLMo et al., 2025): norms behind attention and MLP, and of all
/// heads' queries and keys together.
decoder_options read_olmo2(model_config& config) {
  auto o = read_gated(config);
  o.place = decoder_options::norm_place::after;
  o.query_norms = decoder_options::query_norm::all;
  o.padding =
    read_padding(config, o.vocabulary, config.lists("pad_token_id") ? -1 : 1);
  o.epsilon = config.number("rms_norm_eps", 1e-5);
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.names.first_norm = "post_attention_layernorm";
  o.names.second_norm = "post_feedforward_layernorm";
  return o;
}

/// GPT-2 (Radford et al., 2019): learned positions, LayerNorms, weights of
/// linear layers as [inputs, outputs].
decoder_options read_gpt2(model_config& config) {
  decoder_options o;
  auto& names = o.names;
  names.tokens = "transformer.wte";
  names.positions = "transformer.wpe";
  names.blocks = "transformer.h";
  names.last_norm = "transformer.ln_f";
  names.attention = "attn";
  names.fused = "c_attn";
  names.output = "c_proj";
  names.first_norm = "ln_1";
  names.second_norm = "ln_2";
  names.up = "c_fc";
  names.down = "c_proj";
  o.vocabulary = config.whole("vocab_size", 50257);
  o.width = config.whole("n_embd", 768);
  o.layers = config.whole("n_layer", 12, 1, most_layers);
  o.heads = config.whole("n_head", 12);
  set_plain(config, o, "n_embd", "n_head");
  o.inner = config.whole("n_inner", 4 * o.width);
  o.length = config.whole("n_positions", 1024);
  o.epsilon = config.number("layer_norm_epsilon", 1e-5);
  o.transposed = o.query_bias = o.output_bias = true;
  o.activation = config.text("activation_function", "gelu_new");
  o.tied = config.flag("tie_word_embeddings", true);
  o.deviation = config.number("initializer_range", 0.02);
  o.residual_deviation =
    o.deviation / std::sqrt(2 * static_cast<double>(o.layers));
  const bool scales = config.flag("scale_attn_weights", true);
  const bool by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
  for (std::int64_t i = 0; i < o.layers; ++i)
    o.scales.push_back(
      (scales ? 1 / std::sqrt(static_cast<double>(o.head_size)) : 1)
      / (by_layer ? static_cast<double>(i + 1) : 1));
  o.dropout = {.embedding = read_dropout(config, "embd_pdrop", 0.1),
               .attention = read_dropout(config, "attn_pdrop", 0.1),
               .residual = read_dropout(config, "resid_pdrop", 0.1)};
  // The order of a rounding, heads for classification, and fields of GPT.
  config.ignore({"afn", "n_ctx", "n_special", "predict_special_tokens",
                 "reorder_and_upcast_attn", "summary_activation",
                 "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
  return o;
}

/// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023).
decoder_options read_gpt_neox(model_config& config) {
  decoder_options o;
  auto& names = o.names;
  names.tokens = "gpt_neox.embed_in";
  names.blocks = "gpt_neox.layers";
  names.last_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  names.attention = "attention";
  names.fused = "query_key_value";
  names.output = "dense";
  names.up = "dense_h_to_4h";
  names.down = "dense_4h_to_h";
  o.vocabulary = config.whole("vocab_size", 50432);
  o.width = config.whole("hidden_size", 6144);
  o.layers = config.whole("num_hidden_layers", 44, 1, most_layers);
  o.heads = config.whole("num_attention_heads", 64);
  set_plain(config, o, "hidden_size", "num_attention_heads");
  o.inner = config.whole("intermediate_size", 24576);
  o.epsilon = config.number("layer_norm_eps", 1e-5);
  o.place = config.flag("use_parallel_residual", true)
              ? decoder_options::norm_place::parallel
              : decoder_options::norm_place::before;
  o.fused = decoder_options::fusion::heads;
  o.query_bias = o.output_bias = config.flag("attention_bias", true);
  o.activation = config.text("hidden_act", "gelu");
  o.tied = config.flag("tie_word_embeddings", false);
  o.deviation = o.residual_deviation = config.number("initializer_range", 0.02);
  const auto share = config.number("rotary_pct", 0.25);
  const auto base = config.number("rotary_emb_base", 10'000);
  // transformers does not read these names in this type of model.
  config.require("partial_rotary_factor", {share});
  config.require("rope_theta", {base});
  o.rotary = read_rotary(config, o.head_size, base, share);
  o.dropout.attention = read_dropout(config, "attention_dropout");
  o.dropout.embedding = o.dropout.residual =
    read_dropout(config, "hidden_dropout");
  // transformers does not read the last two in this type of model.
  config.ignore({"classifier_dropout", "attention_probs_dropout_prob",
                 "hidden_dropout_prob"});
  return o;
}

void read_experts(model_config& config, decoder_options& o) {
  o.experts.chosen = config.whole("num_experts_per_tok");
  if (o.experts.count > 0 && o.experts.chosen > o.experts.count)
    config.refuse("num_experts_per_tok", "is more than there are experts");
  config.require("router_jitter_noise", {0, 0.0});
  const auto factor = config.number("router_aux_loss_coef", 0.001);
  const bool any =
    std::ranges::find(o.experts.layers, true) != o.experts.layers.end();
  if (config.flag("output_router_logits", false) && any)
    o.experts.balance = factor;
}

/// Mixtral 8x7B (Jiang et al., 2024): Mistral with experts in every layer.
decoder_options read_mixtral(model_config& config) {
  require_key_heads(config);
  auto o = read_gated(config, 0, 1e6);
  o.epsilon = config.number("rms_norm_eps", 1e-5);
  o.windows.assign(static_cast<std::size_t>(o.layers),
                   config.whole("sliding_window", 0, 0));
  o.names.mlp = "block_sparse_moe";
  o.experts.count =
    config.whole("num_local_experts", config.whole("num_experts", 8));
  o.experts.inner = o.inner;
  o.experts.normalised = true;
  o.experts.names = {.gate = "w1", .up = "w3", .down = "w2"};
  o.experts.layers.assign(static_cast<std::size_t>(o.layers), true);
  read_experts(config, o);
  return o;
}

/// Qwen 3's mixtures of experts (Yang et al., 2025), with dense MLPs in some
/// layers.
decoder_options read_qwen3_moe(model_config& config) {
  using wholes = std::vector<std::int64_t>;
  config.whole("num_key_value_heads");  // transformers refuses null here
  auto o = read_gated(config);
  o.query_norms = decoder_options::query_norm::head;
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.windows.assign(static_cast<std::size_t>(o.layers), read_window(config));
  config.ignore({"max_window_layers"});
  o.experts.count =
    config.whole("num_local_experts", config.whole("num_experts", 128, 0), 0);
  o.experts.inner = config.whole("moe_intermediate_size", 768);
  o.experts.normalised = config.flag("norm_topk_prob", false);
  const auto step = config.whole("decoder_sparse_step", 1);
  o.experts.layers.assign(static_cast<std::size_t>(o.layers), false);
  for (std::int64_t i = 0; i < o.layers; ++i)
    o.experts.layers[static_cast<std::size_t>(i)] =
      o.experts.count > 0 && (i + 1) % step == 0;
  for (const auto i : config.read<wholes>("mlp_only_layers", wholes{}))
    if (i >= 0 && i < o.layers)
      o.experts.layers[static_cast<std::size_t>(i)] = false;
  read_experts(config, o);
  return o;
}

}  // namespace

const std::vector<decoder_type>& decoder_types() {
  static const std::vector<decoder_type> types{
    {"llama", read_llama},        {"mistral", read_mistral},
    {"qwen2", read_qwen2},        {"qwen3", read_qwen3},
    {"olmo2", read_olmo2},        {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},  {"mixtral", read_mixtral},
    {"qwen3_moe", read_qwen3_moe}};
  return types;
}

decoder_options read_decoder(model_config& config) {
  const auto type = config.text("model_type");
  const auto found =
    std::ranges::find(decoder_types(), type, &decoder_type::name);
  const auto names =
    decoder_types() | std::views::transform(&decoder_type::name);
  if (found == decoder_types().end())
    config.refuse("model_type", fmt::format("is '{}'; supported: {}", type,
                                            fmt::join(names, ", ")));
  auto options = found->read(config);
  config.finish();
  return options;
}

}  // namespace troupe
