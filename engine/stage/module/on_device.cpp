#include "troupe/engine/stage/module/on_device.hpp"

#include <ATen/core/grad_mode.h>

#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/autocast.hpp"

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
    if (buffer.defined())
      buffer.set_data(to_device(buffer, stream));
}

stage_outputs run_on_host(layer_sequence& module, const tensor_list& inputs,
                          const tensor_lists& messages,
                          std::optional<at::ScalarType> autocast,
                          rank_device* device) {
  const at::NoGradGuard no_grad;
  module.eval();
  auto* stream = device ? &device->compute() : nullptr;
  const auto brought = [&](const tensor_list& tensors) {
    if (!stream)
      return tensors;
    take_over(*stream, tensors, nullptr);
    tensor_list there;
    for (const auto& each : tensors)
      there.push_back(there_if_any(each, *stream));
    return there;
  };
  const auto returned = [&](tensor_list& tensors) {
    for (auto& each : tensors)
      if (stream && each.defined())
        each = to_host(each, *stream).tensor;
  };
  microbatch_data data;
  if (module.reads_model_inputs())
    data.inputs = brought(inputs);
  tensor_lists by_use;
  const auto& crossings = module.interface().inputs;
  for (std::size_t c = 0; c < crossings.size(); ++c)
    for (auto& tensors : module.by_use(crossings[c], brought(messages.at(c))))
      by_use.push_back(std::move(tensors));
  const auto scope = stream ? stream->enter() : nullptr;
  const autocast_scope casts(autocast,
                             device ? device->device().type() : c10::kCPU);
  auto done = module.run(by_use, data);
  stage_outputs result{std::move(done.sent), {}};
  if (module.has_last())
    result.outputs = std::move(done.outputs);
  returned(result.outputs);
  for (auto& each : result.sent)
    returned(each);
  if (stream)
    stream->record()->wait();
  return result;
}

}  // namespace troupe
