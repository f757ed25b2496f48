#include "troupe/monitors/dashboard/heat_map.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr std::int32_t most_stages = 256;
constexpr std::int32_t most_cells = 16384;

}  // namespace

void heat_cell::add(const tensor_statistics& statistics) {
  const auto count = static_cast<double>(statistics.finite());
  seen = true;
  max_abs = std::max(max_abs, statistics.max_abs);
  squares += statistics.l2() * statistics.l2();
  sum += statistics.mean * count;
  finite += statistics.finite();
  not_finite += statistics.nans + statistics.infs;
}

heat_map::heat_map(std::int32_t all_stages, std::int32_t of_replica,
                   std::int32_t data_ranks)
  : stages(std::min(all_stages, most_stages)),
    microbatches(of_replica),
    wanted(std::int64_t{all_stages} * of_replica * data_ranks) {
  const auto all = std::int64_t{of_replica} * data_ranks;
  columns = static_cast<std::int32_t>(
    std::min<std::int64_t>(all, most_cells / std::max(stages, 1)));
  const auto cells =
    static_cast<std::size_t>(stages) * static_cast<std::size_t>(columns);
  activations.resize(cells);
  gradients.resize(cells);
}

bool heat_map::is_cut() const {
  return static_cast<std::int64_t>(activations.size()) < wanted;
}

void heat_map::add(const tensors_event& op) {
  const auto& place = op.source;
  const auto column =
    std::int64_t{place.data_rank} * microbatches + place.microbatch;
  if (place.stage < 0 || place.stage >= stages || place.microbatch < 0
      || column >= columns)
    return;
  const auto cell =
    static_cast<std::size_t>(place.stage) * static_cast<std::size_t>(columns)
    + static_cast<std::size_t>(column);
  step = place.step;
  for (const auto& record : op.tensors) {
    if (record.content != tensor_content::tensor)
      continue;
    if (record.kind == tensor_kind::activation)
      activations[cell].add(record.statistics);
    else if (record.kind == tensor_kind::activation_gradient)
      gradients[cell].add(record.statistics);
  }
}

}  // namespace troupe
