#pragma once

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/model.hpp"

namespace torch::nn {
class Module;
}

namespace troupe {

class layer_sequence;

/// A microbatch's tensors as the stream's, each as of `to_device` for one.
microbatch_data to_device(const microbatch_data& data, device_stream& stream);

/// Brings parameters and buffers to the stream's device, where they are the
/// stream's: others wait for an event first. Handles stay those that they
/// were. Throws `error` (device).
void bring(torch::nn::Module& module, device_stream& stream);

/// The module's outputs for these inputs, without gradients, in the host's
/// memory; inputs are of any memory, and may be read by now. On a device
/// behind all that its compute stream was given, and the host waits for them;
/// null: the CPU. Whoever launches for the device calls it.
tensor_list outputs_on_host(layer_sequence& module, const tensor_list& inputs,
                            rank_device* device);

}  // namespace troupe
