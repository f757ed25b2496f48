#include "troupe/schedules/generation.hpp"

#include <algorithm>

namespace troupe {

schedule generation_schedule(const placement& places, std::int32_t microbatches,
                             std::int32_t positions) {
  schedule result{.name = "generation",
                  .microbatches = microbatches,
                  .slices = positions,
                  .placement = places,
                  .lanes = {}};
  result.lanes.resize(slot(places.ranks));
  for (std::int32_t slice = 0; slice < positions; ++slice)
    for (std::int32_t first = 0; first < microbatches; first += places.ranks)
      for (std::int32_t stage = 0; stage < places.stages(); ++stage) {
        auto& lane = result.lanes[slot(places.rank_of(stage))];
        const auto end = std::min(first + places.ranks, microbatches);
        for (auto microbatch = first; microbatch < end; ++microbatch)
          lane.push_back({.stage = stage,
                          .microbatch = microbatch,
                          .slice = static_cast<std::int16_t>(slice)});
      }
  return result;
}

}  // namespace troupe
