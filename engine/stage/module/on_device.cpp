#include "troupe/engine/stage/module/on_device.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>

#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/autocast.hpp"

namespace troupe {

namespace {

at::Tensor defined_to_device(const at::Tensor& tensor, device_stream& stream) {
  return tensor.defined() ? to_device(tensor, stream) : tensor;
}

}  // namespace

microbatch_data to_device(const microbatch_data& data, device_stream& stream) {
  return transformed(data, [&](const at::Tensor& tensor) {
    return defined_to_device(tensor, stream);
  });
}

void move_to_device(torch::nn::Module& module, device_stream& stream) {
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
  const auto on_device = [&](tensor_list tensors) {
    if (!stream)
      return tensors;
    take_over(*stream, tensors, nullptr);
    for (auto& each : tensors)
      each = defined_to_device(each, *stream);
    return tensors;
  };
  const auto copy_to_host = [&](tensor_list& tensors) {
    for (auto& each : tensors)
      if (stream && each.defined())
        each = to_host(each, *stream).tensor;
  };
  microbatch_data data;
  if (module.reads_model_inputs())
    data.inputs = on_device(inputs);
  tensor_lists uses;
  const auto& crossings = module.interface().inputs;
  for (std::size_t c = 0; c < crossings.size(); ++c)
    std::ranges::move(module.by_use(crossings[c], on_device(messages.at(c))),
                      std::back_inserter(uses));
  const auto scope = stream ? stream->enter() : nullptr;
  const autocast_scope casts(autocast,
                             device ? device->device().type() : c10::kCPU);
  auto outputs = module.run(uses, data);
  stage_outputs result{std::move(outputs.sent), {}};
  if (module.has_last())
    result.outputs = std::move(outputs.outputs);
  copy_to_host(result.outputs);
  for (auto& each : result.sent)
    copy_to_host(each);
  if (stream)
    stream->record()->wait();
  return result;
}

}  // namespace troupe
