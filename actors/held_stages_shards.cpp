// Shards of parameters between two steps.
#include <ATen/core/grad_mode.h>

#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/stored_state.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"

namespace troupe {

/// The tensors of a member of a stage's group, for the processes of the group's
/// other members. All processes of a job make the call.
tensor_list held_stages::shared(tensor_list own, stage_instance which,
                                std::int32_t data_rank) const {
  const auto& layout = setup_.layout;
  const auto rank = setup_.places().rank_of(which);
  const auto owner = layout.process_of(data_rank, rank);
  const auto shards = setup_.shards();
  const auto first = data_rank / shards * shards;
  for (auto d = first; d < first + shards; ++d)
    if (layout.process_of(d, rank) != owner)
      return share(setup_.job(), std::move(own), owner);
  return own;
}

void held_stages::gather_shards(stage_instance which,
                                std::int32_t first) const {
  tensor_lists by_shard;
  for (auto d = first; d < first + setup_.shards(); ++d) {
    const auto& stage = stage_of(d, which);
    tensor_list own;
    if (stage)
      own = stage.shards->own_shards();
    by_shard.push_back(shared(std::move(own), which, d));
  }
  for (auto d = first; d < first + setup_.shards(); ++d) {
    const auto& stage = stage_of(d, which);
    if (!stage)
      continue;
    const auto device = devices_.of(d, which);
    const auto scope = device ? device->compute().enter() : nullptr;
    for (auto& shards : by_shard)
      if (device)
        take_over(device->compute(), shards, nullptr);
    const auto work = stage.shards->begin_gather();
    for (std::int32_t q = 0; q < setup_.shards(); ++q)
      for (std::size_t row = 0; row < work.rows.size(); ++row)
        work.rows[row]
          .narrow(0, work.layouts[row]->begin(q), work.layouts[row]->length(q))
          .copy_(by_shard[static_cast<std::size_t>(q)].at(row));
    if (device)
      device->compute().drain();
  }
}

void held_stages::make_whole() const {
  if (!setup_.releases())
    return;
  const at::NoGradGuard no_grad;
  for (const auto& which : setup_.places().instances())
    for (std::int32_t first = 0; first < setup_.options.data_parallel;
         first += setup_.shards())
      gather_shards(which, first);
}

void held_stages::release_whole() const {
  if (setup_.releases())
    for_each_stage([&](std::int32_t d, stage_instance which) {
      auto& shards = *stage_of(d, which).shards;
      if (shards.is_whole())
        shards.release();
    });
}

/// Takes up what was written to whole parameters.
void held_stages::take_shards() {
  for_each_stage([&](std::int32_t d, stage_instance which) {
    if (const auto& shards = stage_of(d, which).shards)
      shards->take_shards();
  });
}

/// The state of the first replica's whole parameters; empty where that replica
/// lives elsewhere.
optimizer_state held_stages::optimizer_state_of(stage_instance which) const {
  const auto& first = stage_of(0, which);
  if (!setup_.options.sharding.shards())
    return first ? first.parameters->state() : optimizer_state{};
  std::vector<optimizer_state> states;
  for (std::int32_t d = 0; d < setup_.shards(); ++d) {
    const auto& stage = stage_of(d, which);
    const auto tensors = shared(
      stage ? packed(stage.parameters->state()) : tensor_list{}, which, d);
    if (first)
      states.push_back(
        unpacked(tensors, pieces_of(first.shards->layouts(), d).size()));
  }
  return first ? first.shards->joined(states) : optimizer_state{};
}

}  // namespace troupe
