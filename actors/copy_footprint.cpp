#include "troupe/actors/copy_footprint.hpp"

#include <ATen/core/Tensor.h>

#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/stored_state.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

namespace {

parameter_list trained(const parameter_list& parameters,
                       const parameter_groups& groups) {
  parameter_list all;
  for (const auto& [name, value] : parameters) {
    const auto* const group = group_of(groups, name);
    if (value.requires_grad() && !(group && group->frozen))
      all.emplace_back(name, value);
  }
  return all;
}

parameter_list in_dtype(parameter_list tensors,
                        std::optional<c10::ScalarType> dtype) {
  for (auto& [name, value] : tensors)
    value =
      converted(value.detach(), dtype).set_requires_grad(value.requires_grad());
  return tensors;
}

std::int64_t bytes_in(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& each : tensors)
    bytes += static_cast<std::int64_t>(each.nbytes());
  return bytes;
}

/// Layer by layer, as their tensors take memory unless they are made on the
/// meta device.
std::int64_t bytes_of_layer(const model& layers, std::size_t index,
                            const trainer_options& options) {
  const auto& numerics = options.numerics;
  const auto& dtypes = numerics.dtypes;
  const auto module = make_layer_shapes(layers, index);
  const auto& name = layers[index].name;
  const auto parameters =
    in_dtype(parameters_of(name, *module), dtypes.parameters);
  const auto buffers =
    in_dtype(buffers_of(name, *module),
             dtypes.buffers ? dtypes.buffers : dtypes.parameters);
  const auto state = packed(optimizer(numerics.optimizer,
                                      trained(parameters, numerics.parameters),
                                      numerics.parameters)
                              .initial_state());
  return bytes_in(values_of(parameters)) + bytes_in(values_of(buffers))
         + bytes_in(state) / options.sharding.shards_of(options.data_parallel);
}

}  // namespace

std::vector<std::int64_t> state_bytes(const model& layers,
                                      const trainer_options& options) {
  std::vector<std::int64_t> all;
  for (const auto& range : options.split) {
    auto& bytes = all.emplace_back(0);
    for (auto i = range.first; i < range.last; ++i)
      bytes += bytes_of_layer(layers, static_cast<std::size_t>(i), options);
  }
  return all;
}

copy_footprint copies_in(const std::vector<std::int64_t>& stages,
                         const placement& places, const job_layout& layout,
                         bool sharded) {
  constexpr std::int64_t steps_kept = 2;  // see state_copies
  copy_footprint all{
    std::vector<std::int64_t>(layout.hosting.size()),
    std::vector<std::int64_t>(static_cast<std::size_t>(layout.processes))};
  const auto add = [&](std::int32_t process, std::int64_t bytes) {
    all.processes[static_cast<std::size_t>(process)] += steps_kept * bytes;
  };
  for (std::int32_t d = 0; d < layout.data_ranks; ++d)
    for (std::int32_t r = 0; r < layout.ranks; ++r) {
      auto& bytes = all.ranks[static_cast<std::size_t>(d * layout.ranks + r)];
      for (const auto& which : places.instances_of(r))
        bytes += stages[static_cast<std::size_t>(which.stage)];
      add(layout.process_of(d, r), bytes);
      if (const auto keeper = keeper_of(layout, d, r, sharded))
        add(*keeper, bytes);
    }
  return all;
}

}  // namespace troupe
