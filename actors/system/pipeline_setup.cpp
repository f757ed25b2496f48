#include "troupe/actors/system/pipeline_setup.hpp"

#include <algorithm>
#include <atomic>

#include "troupe/engine/stage/sharding/sharded_parameters.hpp"

namespace troupe {

job_layout layout_of(const pipeline_options& options) {
  const auto place = options.job ? options.job->place() : job_place{};
  return make_layout(place.process, place.processes,
                     static_cast<std::int32_t>(options.stages.size()),
                     options.placement.ranks);
}

/// Bytes of the gradients of the largest stage that lives here.
std::int64_t largest_stage(const pipeline_options& options) {
  std::int64_t most = 0;
  for (const auto& replica : options.stages)
    for (const auto& stage : replica) {
      std::int64_t bytes = 0;
      if (!stage)
        continue;
      // Sums of 16-bit gradients are fp32; with a number for each parameter
      // that tells whether it has a gradient.
      for (const auto& parameter : stage.parameters->parameters())
        bytes +=
          parameter.numel()
            * std::max<std::int64_t>(parameter.element_size(), sizeof(float))
          + static_cast<std::int64_t>(sizeof(double));
      if (stage.shards)
        bytes += stage.shards->bytes();  // frozen ones, too
      most = std::max(most, bytes);
    }
  return most;
}

supervision make_supervision(const pipeline_options& options) {
  const auto layout = layout_of(options);
  auto board =
    std::make_shared<progress_board>(layout.data_ranks, layout.ranks);
  for (std::int32_t d = 0; d < layout.data_ranks; ++d)
    for (std::int32_t r = 0; r < layout.ranks; ++r)
      if (!layout.is_here(d, r))
        board->set(d, r, {0, progress_board::state::elsewhere});
  return {std::move(board), std::make_shared<event_board>(),
          std::make_shared<load_board>(layout.data_ranks),
          options.execution.limits, std::make_shared<std::atomic<bool>>(false)};
}

std::uint64_t run_id(const pipeline_options& options) {
  return options.job ? options.job->place().run : new_run_id();
}

}  // namespace troupe
