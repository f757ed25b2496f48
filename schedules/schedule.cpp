#include "troupe/schedules/schedule.hpp"

#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

placement placement::looped(std::int32_t ranks, std::int32_t stages) {
  placement result{.ranks = ranks, .rank_by_stage = {{}}};
  for (std::int32_t stage = 0; stage < stages; ++stage)
    result.rank_by_stage[0].push_back(stage % ranks);
  return result;
}

placement placement::v_shaped(std::int32_t ranks) {
  auto result = looped(ranks, ranks);
  for (auto rank = ranks; rank-- > 0;)
    result.rank_by_stage[0].push_back(rank);
  return result;
}

namespace {

void check_positive(std::int32_t value, const char* what) {
  if (value < 1)
    fail(error_code::invalid_argument,
         "{} must be at least 1, but is {}: the nearest legal value is 1", what,
         value);
}

}  // namespace

schedule schedule::build(const schedule_shape& shape,
                         const std::function<void(lane_builder&)>& fill,
                         std::string name) {
  check_positive(shape.ranks, "ranks");
  check_positive(shape.stages_per_rank, "stages per rank");
  const auto looped =
    placement::looped(shape.ranks, shape.ranks * shape.stages_per_rank);
  return build(looped, shape.microbatches, fill, std::move(name));
}

schedule schedule::build(troupe::placement placement, std::int32_t microbatches,
                         const std::function<void(lane_builder&)>& fill,
                         std::string name) {
  check_positive(microbatches, "microbatches");
  schedule result{.name = std::move(name),
                  .microbatches = microbatches,
                  .placement = std::move(placement)};
  for (std::int32_t rank = 0; rank < result.ranks(); ++rank) {
    lane_builder builder{result.placement, microbatches, rank};
    fill(builder);
    result.lanes.push_back(builder.take());
  }
  validate(result);
  return result;
}

}  // namespace troupe
