#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <string>

#include "troupe/engine/device/tensor.hpp"

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

/// Adds adapters to the linear modules of a layer whose names match, but for
/// `except`, with initial values, and freezes all else. Nothing for rank 0.
void add_adapters(torch::nn::Module& layer, const std::string& layer_name,
                  const lora_options& options, const std::string& except = {});
/// Whether one of these globs is of a module's whole name or of its last part.
bool means_module(const std::string& globs, const std::string& module);
/// Whether a parameter is an adapter's.
bool is_adapter(const std::string& parameter);

/// A parameter of these with its adapter's change, in fp32; the parameter
/// itself if it has no adapter. `transposed`: the weights in modules whose
/// names begin so are [inputs, outputs]; empty: there are none.
at::Tensor merged(const std::string& name,
                  const std::map<std::string, at::Tensor>& parameters,
                  const lora_options& options,
                  const std::string& transposed = {});

/// adapter_config.json and adapter_model.safetensors, which PEFT reads.
/// `base`: the folder of the model that was adapted. The folder appears whole
/// or not at all, as a fresh_folder. Throws `io`.
void save_adapter(const std::string& path, const parameter_list& parameters,
                  const lora_options& options, bool transposed,
                  const std::string& base);

}  // namespace troupe
