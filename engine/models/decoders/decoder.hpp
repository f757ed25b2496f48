#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/models/decoders/decoder_choices.hpp"
#include "troupe/engine/models/decoders/rotary.hpp"
#include "troupe/engine/stage/model.hpp"

namespace troupe {

/// The names of a decoder's modules, as its files have them. Of a block's
/// modules relative to the block, and of theirs relative to them.
struct decoder_names {
  std::string tokens = "model.embed_tokens";
  std::string positions{};  // learned; empty: there are none
  std::string blocks = "model.layers";
  std::string last_norm = "model.norm";
  std::string head = "lm_head";

  std::string attention = "self_attn";
  std::string query = "q_proj", key = "k_proj", value = "v_proj";
  std::string fused{};  // of all three
  std::string output = "o_proj";
  std::string first_norm = "input_layernorm";
  std::string second_norm = "post_attention_layernorm";
  std::string mlp = "mlp";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";

  bool operator==(const decoder_names&) const = default;
};

/// MLPs among which a router chooses for each token, in place of one.
struct expert_options {
  std::int64_t count = 0;  // 0: none
  std::int64_t chosen = 0;
  std::int64_t inner = 0;      // width of each
  bool normalised = false;     // the weights of those chosen sum to 1
  double balance = 0;          // factor of the loss that balances their use
  decoder_names names{};       // of each: gate, up, down
  std::vector<bool> layers{};  // that have experts

  bool operator==(const expert_options&) const = default;
};

/// Probabilities, in training (engine/stage/random.hpp).
struct dropout_options {
  double embedding = 0;  // of what the embeddings give
  double attention = 0;  // of attention's weights
  double residual = 0;   // of what attention and MLP add

  bool operator==(const dropout_options&) const = default;
};

/// A decoder-only transformer in the variants that Hugging Face's model types
/// are made of: see decoder_types.cpp for the types, and gpt.cpp.
struct decoder_options {
  enum class norm_kind { rms, layer };
  /// Where a block has its norms: in front of attention and MLP; behind them
  /// (OLMo 2); in front, both of the block's input (GPT-NeoX, GPT-J).
  enum class norm_place { before, after, parallel };
  /// Norms of queries and keys (Henry et al., 2020): of each head (Qwen 3), or
  /// of all heads together (OLMo 2).
  enum class query_norm { none, head, all };
  /// How one projection gives queries, keys and values: three of all heads
  /// (GPT-2), or three of each head (GPT-NeoX).
  enum class fusion { thirds, heads };

  decoder_names names{};
  std::int64_t vocabulary = 0, width = 0, layers = 0;
  std::int64_t heads = 0, key_heads = 0;  // heads: a multiple of key_heads
  std::int64_t head_size = 0;
  std::int64_t inner = 0;   // width of the MLP
  std::int64_t length = 0;  // longest sequence, with learned positions

  norm_kind norm = norm_kind::rms;
  double epsilon = 1e-6;
  norm_place place = norm_place::before;
  query_norm query_norms = query_norm::none;
  fusion fused = fusion::thirds;
  bool transposed = false;  // linear weights in blocks are [inputs, outputs]
  bool query_bias = false, output_bias = false, mlp_bias = false;
  bool head_bias = false;  // not with experts, whose router has a loss
  bool gated = true;       // down(act(gate(x)) * up(x)), else down(act(up(x)))
  std::string activation = "silu";
  expert_options experts{};
  rotary_options rotary{};
  /// By layer: a position sees so many last ones, itself included; 0: all.
  std::vector<std::int64_t> windows{};
  /// By layer: the factor of queries times keys.
  std::vector<double> scales{};
  /// `head` has the weight of `tokens`.
  bool tied = false;
  std::int64_t padding = -1;  // a token whose embedding is not trained

  dropout_options dropout{};

  decoder_choices choices{};

  double deviation = 0.02;           // of fresh weights
  double residual_deviation = 0.02;  // of those in front of a residual sum

  bool has_router_loss() const {
    return choices.router_loss && experts.balance != 0;
  }
  bool operator==(const decoder_options&) const = default;
};

/// Fills a parameter, whose name is that in the whole model; not those of
/// adapters, which are fresh.
using parameter_filler =
  std::function<void(const std::string& name, at::Tensor& parameter)>;

/// Layers: the embeddings, each block, and the last norm with the head. Token
/// ids int64 [rows, length] in, logits [rows, length, vocabulary] out. A block
/// that reads several outputs (layer::reads) adds them.
/// `kind`: of the parameters, before `fill`, which may be null and changes
/// values alone. Throws `invalid_argument` for sizes that don't go together.
model decoder(const decoder_options& options, const parameter_filler& fill,
              const at::TensorOptions& kind = {});

/// Fresh parameters: normal ones for weights, ones for norms, zeros for biases;
/// each of its own generator.
parameter_filler fresh_parameters(const decoder_options& options,
                                  std::uint64_t seed);

/// Throws `invalid_argument` for sizes that don't go together, and as
/// `require_activation`.
void require_legal(const decoder_options& options);
/// Throws `invalid_argument` for an activation function (Hugging Face's names)
/// that is not known.
void require_activation(const std::string& name);

}  // namespace troupe
