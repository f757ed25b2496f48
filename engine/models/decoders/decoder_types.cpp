#include "troupe/engine/models/decoders/decoder_types.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

namespace troupe {

namespace {

rotary_options::scaling scaling_of(model_config& config,
                                   const std::string& kind) {
  using enum rotary_options::scaling;
  constexpr std::array<std::pair<const char*, rotary_options::scaling>, 6>
    kinds{{{"default", none},
           {"linear", linear},
           {"dynamic", dynamic},
           {"llama3", llama3},
           {"yarn", yarn},
           {"longrope", longrope}}};
  for (const auto& [name, value] : kinds)
    if (kind == name)
      return value;
  config.refuse("rope_type",
                fmt::format("is '{}'; supported: {}", kind,
                            fmt::join(kinds | std::views::keys, ", ")));
}

std::vector<double> factors_of(model_config& config, const std::string& name,
                               std::int64_t dimensions) {
  auto factors = config.read<std::vector<double>>(name);
  if (const auto needed = (dimensions + 1) / 2; std::ssize(factors) != needed)
    config.refuse(
      name, fmt::format("has {} numbers, not {}", factors.size(), needed));
  return factors;
}

/// What the kind of scaling needs; `config`: the object that names it.
void read_scaling(model_config& config, rotary_options& r) {
  using enum rotary_options::scaling;
  if (r.kind == none)
    return;
  const auto usual = r.kind == yarn || r.kind == longrope
                       ? std::optional(static_cast<double>(r.length)
                                       / static_cast<double>(r.original_length))
                       : std::nullopt;
  r.factor = config.number("factor", usual);
  if (!(r.factor >= 1))
    config.refuse("factor", fmt::format("is {}, and less than 1", r.factor));
  if (r.kind == llama3) {
    r.low_frequency = config.number("low_freq_factor");
    r.high_frequency = config.number("high_freq_factor");
    if (!(r.low_frequency > 0 && r.high_frequency > r.low_frequency))
      config.refuse("high_freq_factor", "is not above low_freq_factor");
  }
  if (r.kind == yarn || r.kind == longrope)
    r.attention_factor = config.optional_number("attention_factor");
  if (r.kind == yarn) {
    r.beta_fast = config.number("beta_fast", 32);
    r.beta_slow = config.number("beta_slow", 1);
    r.mscale = config.optional_number("mscale");
    r.mscale_all_dim = config.optional_number("mscale_all_dim");
    r.truncate = config.flag("truncate", true);
    if (!(r.beta_slow > 0 && r.beta_fast > r.beta_slow))
      config.refuse("beta_fast", "is not above beta_slow");
  }
  if (r.kind == longrope) {
    r.short_factor = factors_of(config, "short_factor", r.dimensions);
    r.long_factor = factors_of(config, "long_factor", r.dimensions);
  }
}

/// `use_sliding_window` with `layer_types` or `max_window_layers`.
void read_windows(model_config& config, decoder_options& options) {
  const auto layers = static_cast<std::size_t>(options.layers);
  const bool uses = config.flag("use_sliding_window", false);
  const auto window = uses ? config.whole("sliding_window", 4096) : 0;
  const auto first = config.whole("max_window_layers", 28, 0);
  config.ignore({"sliding_window"});
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
    config.whole("pad_token_id", config.lists("pad_token_id") ? -1 : 1, -1);
  o.epsilon = config.number("rms_norm_eps", 1e-5);
  o.query_bias = o.output_bias = config.flag("attention_bias", false);
  o.names.first_norm = "post_attention_layernorm";
  o.names.second_norm = "post_feedforward_layernorm";
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

rotary_options read_rotary(model_config& config, std::int64_t head_size,
                           double base, double share) {
  rotary_options r;
  r.length = config.whole("max_position_embeddings");
  r.base = config.number("rope_theta", base);
  share = config.number("partial_rotary_factor", share);
  const auto original =
    config.whole("original_max_position_embeddings", 0, 0);  // as Phi 3 has it
  r.original_length = original > 0 ? original : r.length;
  const auto* name =
    config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  config.ignore({"rope_parameters", "rope_scaling"});
  const auto rotate = [&](double part) {
    r.dimensions =
      static_cast<std::int64_t>(static_cast<double>(head_size) * part);
  };
  rotate(share);
  if (!config.has(name))
    return r;
  auto inner = config.inner(name);
  r.base = inner.number("rope_theta", r.base);
  rotate(inner.number("partial_rotary_factor", share));
  const auto told =
    inner.whole("original_max_position_embeddings", r.original_length);
  r.original_length = original > 0 ? original : told;
  const auto older = inner.text("type", "default");
  r.kind = scaling_of(inner, inner.text("rope_type", older));
  read_scaling(inner, r);
  inner.finish();
  return r;
}

void require_no_dropout(model_config& config,
                        std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (const auto share = config.number(name, 0); share != 0)
      config.refuse(name, fmt::format("is {}: troupe trains without dropout; "
                                      "set it to 0 to accept that",
                                      share));
}

decoder_options read_gated(model_config& config, std::int64_t head_size,
                           double base) {
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
  o.padding = config.whole("pad_token_id", -1, -1);
  o.rotary = read_rotary(config, o.head_size, base);
  if (o.rotary.dimensions != o.head_size)
    config.refuse("partial_rotary_factor", "must be 1 in this type of model");
  require_no_dropout(config, {"attention_dropout"});
  return o;
}

void require_key_heads(const model_config& config) {
  if (!config.lists("num_key_value_heads"))
    config.refuse("num_key_value_heads", "is missing");
}

}  // namespace troupe
