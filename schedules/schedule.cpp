#include "troupe/schedules/schedule.hpp"

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

placement placement::looped(std::int32_t ranks, std::int32_t stages) {
  check_size("ranks", ranks, most_microbatches);
  check_size("stages", stages, most_microbatches);
  placement result{.ranks = ranks, .rank_by_stage = {{}}};
  for (std::int32_t stage = 0; stage < stages; ++stage)
    result.rank_by_stage[0].push_back(stage % ranks);
  return result;
}

std::vector<stage_instance> placement::instances() const {
  std::vector<stage_instance> all;
  for (std::int32_t copy = 0; copy < copies(); ++copy)
    for (std::int32_t stage = 0; stage < stages(); ++stage)
      all.push_back({stage, static_cast<std::int8_t>(copy)});
  return all;
}

std::vector<stage_instance> placement::instances_of(std::int32_t rank) const {
  auto all = instances();
  std::erase_if(
    all, [&](const stage_instance& each) { return rank_of(each) != rank; });
  return all;
}

placement placement_of(const schedule_shape& shape) {
  check_size("ranks", shape.ranks, most_microbatches);
  check_size("stages per rank", shape.stages_per_rank,
             most_microbatches / shape.ranks);
  return placement::looped(shape.ranks, shape.ranks * shape.stages_per_rank);
}

placement placement::v_shaped(std::int32_t ranks) {
  return waves(ranks, 2 * ranks);
}

placement placement::waves(std::int32_t ranks, std::int32_t stages) {
  auto result = looped(ranks, stages);
  for (std::int32_t stage = 0; stage < stages; ++stage)
    if (auto& rank = result.rank_by_stage[0][slot(stage)];
        stage / ranks % 2 == 1)
      rank = ranks - 1 - rank;
  return result;
}

placement placement::two_directions(std::int32_t ranks) {
  auto result = looped(ranks, ranks);
  auto reversed = result.rank_by_stage[0];
  std::ranges::reverse(reversed);
  result.rank_by_stage.push_back(std::move(reversed));
  return result;
}

namespace {

schedule build_lanes(placement placement, std::int32_t microbatches,
                     std::int32_t slices,
                     const std::function<void(lane_builder&)>& fill,
                     std::string name) {
  if (!fill)
    throw error(error_code::invalid_argument,
                "no function writes the lanes; give one that takes a "
                "lane_builder&");
  schedule result{.name = std::move(name),
                  .microbatches = microbatches,
                  .slices = slices,
                  .placement = std::move(placement)};
  for (std::int32_t rank = 0; rank < result.ranks(); ++rank) {
    lane_builder builder{result.placement, microbatches, rank, slices};
    fill(builder);
    result.lanes.push_back(builder.take());
  }
  validate(result);
  return result;
}

}  // namespace

schedule schedule::build(const schedule_shape& shape,
                         const std::function<void(lane_builder&)>& fill,
                         std::string name) {
  return build_lanes(placement_of(shape), shape.microbatches, shape.slices,
                     fill, std::move(name));
}

schedule schedule::build(troupe::placement placement, std::int32_t microbatches,
                         const std::function<void(lane_builder&)>& fill,
                         std::string name) {
  return build_lanes(std::move(placement), microbatches, 1, fill,
                     std::move(name));
}

}  // namespace troupe
