#pragma once

#include <memory>

#include "troupe/actors/messages.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe {

/// A stage actor's constructor arguments.
struct stage_setup {
  std::int32_t data_rank = 0;
  stage_instance stage;
  troupe::stage work;
  /// By how much its compute ops take longer, from a step on (tests).
  double slow = 1;
  std::int64_t slow_from = 1;
  /// The rank's device; null: the CPU.
  std::shared_ptr<rank_device> device;
};

}  // namespace troupe
