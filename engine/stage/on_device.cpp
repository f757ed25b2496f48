#include "troupe/engine/stage/on_device.hpp"

#include <ATen/core/grad_mode.h>

namespace troupe {

namespace {

tensor_list each_to_device(const tensor_list& tensors, device_stream& stream) {
  tensor_list there;
  for (const auto& tensor : tensors)
    there.push_back(tensor.defined() ? to_device(tensor, stream) : tensor);
  return there;
}

}  // namespace

microbatch_data to_device(const microbatch_data& data, device_stream& stream) {
  microbatch_data there;
  there.inputs = each_to_device(data.inputs, stream);
  there.targets = each_to_device(data.targets, stream);
  for (const auto& [name, tensor] : data.arguments)
    there.arguments.emplace(name, to_device(tensor, stream));
  there.tokens = data.tokens;
  return there;
}

void bring(torch::nn::Module& module, device_stream& stream) {
  for (auto& parameter : module.parameters())
    parameter.set_data(to_device(parameter, stream));
  for (auto& buffer : module.buffers())
    buffer.set_data(to_device(buffer, stream));
}

tensor_list outputs_on_host(layer_sequence& module, const tensor_list& inputs,
                            rank_device* device) {
  const at::NoGradGuard no_grad;
  module.eval();
  if (!device)
    return module.forward(inputs);
  auto& stream = device->compute();
  take_over(stream, inputs, nullptr);
  const auto there = each_to_device(inputs, stream);
  const auto scope = stream.enter();
  tensor_list outputs;
  for (const auto& output : module.forward(there))
    outputs.push_back(output.defined() ? to_host(output, stream).tensor
                                       : output);
  stream.record()->wait();
  return outputs;
}

}  // namespace troupe
