#include "troupe/actors/job/run_devices.hpp"

#include "troupe/engine/plan/compile/overlapped_pairs.hpp"

namespace troupe {

namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

run_devices::run_devices(
  const std::vector<std::shared_ptr<accelerator>>& accelerators,
  const overlap_options& overlap, const job_layout& layout, const plan& first,
  const run_devices& before)
  : stages_(first.placement) {
  if (accelerators.empty())
    return;
  any_ = accelerators.front();
  const auto instances = stages_.instances();
  const auto streams = overlap.pairs
                         ? compute_streams(first)
                         : std::vector<std::uint8_t>(instances.size(), 0);
  std::size_t next = 0;
  for (std::int32_t d = 0; d < layout.data_ranks; ++d) {
    auto& of_ranks = of_ranks_.emplace_back();
    auto& of_stages = of_stages_.emplace_back(instances.size());
    for (std::int32_t r = 0; r < layout.ranks; ++r) {
      of_ranks.push_back(layout.is_here(d, r) ? before.of(d, r) : nullptr);
      if (layout.is_here(d, r) && !of_ranks.back())
        of_ranks.back() = std::make_shared<rank_device>(
          accelerators[next++ % accelerators.size()], overlap);
      for (const auto& each : stages_.instances_of(r))
        if (const auto index = stages_.index_of(each); of_ranks.back())
          of_stages[index] =
            streams[index] == 0 ? of_ranks.back() : of_ranks.back()->beside();
    }
  }
}

run_devices::pointer run_devices::of(std::int32_t data_rank,
                                     std::int32_t rank) const {
  return empty() ? nullptr : of_ranks_[at(data_rank)][at(rank)];
}

run_devices::pointer run_devices::of(std::int32_t data_rank,
                                     stage_instance stage) const {
  return empty() ? nullptr : of_stages_[at(data_rank)][stages_.index_of(stage)];
}

}  // namespace troupe
