#include "troupe/engine/stage/on_device.hpp"

#include <ATen/core/grad_mode.h>

#include "troupe/engine/stage/layer_sequence.hpp"

namespace troupe {

namespace {

at::Tensor there_if_any(const at::Tensor& tensor, device_stream& stream) {
  return tensor.defined() ? to_device(tensor, stream) : tensor;
}

}  // namespace

microbatch_data to_device(const microbatch_data& data, device_stream& stream) {
  return brought(data, [&](const at::Tensor& tensor) {
    return there_if_any(tensor, stream);
  });
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
  tensor_list there;
  for (const auto& input : inputs)
    there.push_back(there_if_any(input, stream));
  const auto scope = stream.enter();
  tensor_list outputs;
  for (const auto& output : module.forward(there))
    outputs.push_back(output.defined() ? to_host(output, stream).tensor
                                       : output);
  stream.record()->wait();
  return outputs;
}

}  // namespace troupe
