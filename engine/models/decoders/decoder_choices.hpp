#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Low-rank adapters (LoRA, Hu et al., 2021): beside chosen linear modules,
/// y += alpha / rank * B(A x); these alone are trained. Names and files are
/// those of Hugging Face's PEFT.
struct lora_options {
  std::int64_t rank = 0;  // 0: none
  double alpha = 16;
  double dropout = 0;  // of what A reads
  /// Globs joined by commas, of whole module names or of their last parts. By
  /// default those of PEFT: in Llama and its kin, GPT-2, and GPT-NeoX.
  std::string modules = "q_proj,v_proj,c_attn,query_key_value";
  std::uint64_t seed = 1;  // of A; B begins with zeros

  double scale() const { return alpha / static_cast<double>(rank); }
  bool operator==(const lora_options&) const = default;
};

/// What a run decides, and not the model.
struct decoder_choices {
  lora_options lora{};
  /// Tokens attend to those of their own document only, and learned positions
  /// count within it: layers read the argument `document_starts` of
  /// microbatches (microbatch_source.hpp).
  bool documents = false;
  /// The model has the loss that balances its experts, if its configuration
  /// does. That is of a whole microbatch, which can't run in slices.
  bool router_loss = false;
  /// The head makes the logits of so many positions at once where a loss is all
  /// that is wanted; 0: of 16 MiB of them.
  std::int64_t loss_positions = 0;
  /// The length of the longest sequence; 0: unknown.
  std::int64_t length = 0;

  bool operator==(const decoder_choices&) const = default;
};

}  // namespace troupe
