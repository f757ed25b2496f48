#include "troupe/actors/recording/graph_inputs.hpp"

#include <algorithm>

#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/module/on_device.hpp"

namespace troupe {

namespace {

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

bool fits(const microbatch_data& data, const microbatch_data& place) {
  const auto same_name = [](const auto& a, const auto& b) {
    return a.first == b.first;
  };
  return data.inputs.size() == place.inputs.size()
         && std::ranges::equal(data.arguments, place.arguments, same_name)
         && std::ranges::equal(tensors_of(data), tensors_of(place), alike);
}

}  // namespace

graph_inputs::graph_inputs(const std::vector<microbatch_data>& first,
                           device_stream& stream) {
  for (const auto& data : first)
    held_.push_back(to_device(data, stream));
}

bool graph_inputs::fit(const std::vector<microbatch_data>& step) const {
  return std::ranges::equal(step, held_, fits);
}

void graph_inputs::copy(const std::vector<microbatch_data>& step,
                        device_stream& stream) {
  for (std::size_t i = 0; i < step.size(); ++i) {
    const auto source = tensors_of(step[i]);
    const auto target = tensors_of(held_[i]);
    for (std::size_t t = 0; t < source.size(); ++t)
      copy_to_device(source[t], target[t], stream);
  }
}

std::shared_ptr<const microbatch_source> graph_inputs::source() const {
  return make_source(
    [held = held_](std::int64_t index) {
      return held[static_cast<std::size_t>(index)];
    },
    std::ssize(held_));
}

}  // namespace troupe
