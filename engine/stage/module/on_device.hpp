#pragma once

#include <optional>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/model.hpp"

namespace torch::nn {
class Module;
}

namespace troupe {

class layer_sequence;

/// Copies a microbatch's tensors, each by `to_device`.
microbatch_data to_device(const microbatch_data& data, device_stream& stream);

/// Moves parameters and buffers to the stream's device; they belong to the
/// stream: others wait for an event first. Handles stay valid. Throws `error`
/// (device).
void bring(torch::nn::Module& module, device_stream& stream);

/// The module's outputs for these inputs, without gradients, in host memory;
/// inputs are in any memory, and must be ready. `autocast` as in numerics. On a
/// device they run after all
/// earlier work of its compute stream, and the host waits for them; null: the
/// CPU. Call it on the device's launching thread.
tensor_list outputs_on_host(layer_sequence& module, const tensor_list& inputs,
                            std::optional<at::ScalarType> autocast,
                            rank_device* device);

/// The same for a stage: `given` by the stages that it reads, ascending.
struct stage_outputs {
  tensor_lists sent;    // to the stages that read it, ascending
  tensor_list outputs;  // of the model's last layer, if that is here
};
stage_outputs run_on_host(layer_sequence& module, const tensor_list& inputs,
                          const tensor_lists& given,
                          std::optional<at::ScalarType> autocast,
                          rank_device* device);

}  // namespace troupe
