#include "troupe/engine/stage/module/saved_forward.hpp"

namespace troupe {

tensor_list flat(const tensor_lists& lists) {
  tensor_list all;
  for (const auto& each : lists)
    all.insert(all.end(), each.begin(), each.end());
  return all;
}

void saved_forward::note_inputs() {
  if (!saved)
    return;
  for (auto& use : inputs)
    for (auto& each : use) {
      if (recompute)
        each = saved->keep(each);
      else  // a leaf, whose values the graph has saved where it needs them
        saved->drop_later(each);
    }
  if (recompute)
    data = brought(
      data, [this](const at::Tensor& tensor) { return saved->keep(tensor); });
  if (slice)
    slice->drop_data_with(*saved);
}

void saved_forward::offload(rank_device* device) {
  if (!saved)
    return stage_state::offload(device);
  saved->to_host(device);
}

void saved_forward::reload(rank_device* device) {
  if (!saved)
    return stage_state::reload(device);
  saved->to_device(device);
}

}  // namespace troupe
