#pragma once

#include <cstdint>

#include "troupe/engine/stage/model.hpp"

namespace troupe {

/// A GPT over bytes: learned token and position embeddings, pre-LayerNorm
/// blocks (causal attention, 4x GELU MLP), a final LayerNorm and a head; biases
/// everywhere.
struct gpt_options {
  std::int64_t width = 256;  // d_model
  std::int64_t layers = 8;   // blocks
  std::int64_t heads = 8;
  std::int64_t length = 128;  // longest sequence
  std::int64_t vocabulary = 256;
  std::uint64_t seed = 1;
  /// `head.weight` is tied to `tok.weight` (Press and Wolf).
  bool tie_embeddings = false;
  /// Applied to the embeddings, attention's weights, and what attention and MLP
  /// add, as in nanoGPT; in training alone.
  double dropout = 0;
};

/// Layers: the embeddings (`tok`, `pos`), `blocks.0` ..., and the final norm
/// with the head (`ln_f`, `head`). Token ids int64 [rows, length] in, logits
/// float32 [rows, length, vocabulary] out. Each layer draws from its own
/// generator, so the weights don't depend on the split. Throws
/// `invalid_argument` on sizes that don't divide.
model gpt(const gpt_options& options);

/// The number of its parameters' elements, without making them; tied ones count
/// once.
double parameter_count(const gpt_options& options);

}  // namespace troupe
