#pragma once

#include <memory>

#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/reduction/collectives.hpp"

namespace troupe {

/// Collectives of a stage's replicas in several processes, from device to
/// device; the calls are those of the rank that has the replica, in the order
/// of its plan.
std::unique_ptr<collectives> make_device_collectives(
  std::shared_ptr<device_links> links, std::int32_t stage);

/// Collectives of the stages of a replica and copy that hold tied parameters.
std::unique_ptr<collectives> make_tied_device_collectives(
  std::shared_ptr<device_links> links, std::int32_t data_rank,
  std::int8_t copy);

}  // namespace troupe
