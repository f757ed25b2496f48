#pragma once

#include <map>
#include <string>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/models/decoders/decoder_choices.hpp"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace troupe {

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
