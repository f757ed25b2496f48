#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// Joins the parts that the members of a sharding group publish of a stage's
/// parameters and gradients into the event that an unsharded stage publishes:
/// statistics are those of the complete tensor (except those of instances,
/// which are 0), and handles are complete tensors. The event's source is the
/// first replica of the group. One thread at a time.
class shard_joiner {
 public:
  /// Returns the joined event with the last part of a step, otherwise nothing.
  /// Parts of a step that never ends are dropped two steps later.
  std::optional<tensors_event> add(tensors_event part);

 private:
  /// The group's first replica, and the stage.
  using place = std::tuple<std::int32_t, std::int32_t>;
  using parts = std::map<std::int32_t, tensors_event>;      // by shard
  std::map<place, std::map<std::int64_t, parts>> waiting_;  // by step
};

}  // namespace troupe
