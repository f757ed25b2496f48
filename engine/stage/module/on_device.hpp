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

/// Copies each tensor of a microbatch by `to_device`.
microbatch_data to_device(const microbatch_data& data, device_stream& stream);

/// Moves parameters and buffers to the stream's device; they belong to the
/// stream: others wait for an event first. Handles stay valid. Throws `error`
/// (device).
void move_to_device(torch::nn::Module& module, device_stream& stream);

struct stage_outputs {
  tensor_lists sent;    // to the stages that read them, ascending
  tensor_list outputs;  // of the model's last layer, if the stage has it
};

/// Runs a stage without gradients, and returns its outputs in host memory.
/// `inputs`: of the model; `messages`: from the stages that this one reads,
/// ascending; both in any memory, and ready. `autocast` as in numerics.
/// `device`: it runs there after all earlier work of its compute stream, and
/// the host waits for it; null: the CPU. Call it on the device's launching
/// thread.
stage_outputs run_on_host(layer_sequence& module, const tensor_list& inputs,
                          const tensor_lists& messages,
                          std::optional<at::ScalarType> autocast,
                          rank_device* device);

}  // namespace troupe
