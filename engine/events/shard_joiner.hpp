#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "troupe/engine/events/tensors_event.hpp"

namespace troupe {

/// Joins what the members of a group tell of their shards of a stage's
/// parameters and gradients into one event of whole ones, as a stage without
/// shards publishes it: statistics are those of the whole tensor (without
/// those of instances, which are 0), handles are whole tensors. The event is
/// that of the group's first replica. One thread at a time.
class shard_joiner {
 public:
  /// The joined event when the last part of a step has come, else nothing.
  /// Parts of a step that never ends are forgotten with the step after next.
  std::optional<tensors_event> add(tensors_event part);

 private:
  /// The group's first replica, and the stage.
  using place = std::tuple<std::int32_t, std::int32_t>;
  using parts = std::map<std::int32_t, tensors_event>;      // by shard
  std::map<place, std::map<std::int64_t, parts>> waiting_;  // by step
};

}  // namespace troupe
