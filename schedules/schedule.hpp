#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

class lane_builder;

/// One rank's compute ops, in the order in which it runs them.
using lane = std::vector<op>;

/// One of a stage's copies: copy 0 is the only one of most schedules.
struct stage_instance {
  std::int32_t stage = 0;
  std::int8_t copy = 0;

  friend constexpr auto operator<=>(const stage_instance&,
                                    const stage_instance&) = default;
};
TROUPE_FIELDS(stage_instance, stage, copy)

/// Maps stages to ranks. Plain data; the rest of troupe only calls `rank_of`.
struct placement {
  std::int32_t ranks = 1;
  /// rank_by_stage[copy][stage]; there is one copy except in two-directional
  /// schedules.
  std::vector<std::vector<std::int32_t>> rank_by_stage{};

  std::int32_t stages() const {
    return rank_by_stage.empty()
             ? 0
             : static_cast<std::int32_t>(rank_by_stage[0].size());
  }
  std::int32_t copies() const {
    return static_cast<std::int32_t>(rank_by_stage.size());
  }
  std::int32_t rank_of(std::int32_t stage, std::int32_t copy = 0) const {
    return rank_by_stage[slot(copy)][slot(stage)];
  }

  std::int32_t rank_of(stage_instance which) const {
    return rank_of(which.stage, which.copy);
  }
  bool has(stage_instance which) const {
    return which.stage >= 0 && which.stage < stages() && which.copy >= 0
           && which.copy < copies();
  }
  /// All instances by copy, then stage; `index_of` is the place in that list.
  std::vector<stage_instance> instances() const;
  /// Those of a rank, in the same order.
  std::vector<stage_instance> instances_of(std::int32_t rank) const;
  std::size_t index_of(stage_instance which) const {
    return slot(which.copy * stages() + which.stage);
  }

  /// Stage s on rank s mod ranks (one stage a rank, or looped).
  static placement looped(std::int32_t ranks, std::int32_t stages);
  /// Stages r and 2 ranks - 1 - r on rank r (zero-bubble V, DualPipeV).
  static placement v_shaped(std::int32_t ranks);
  /// Stages go down the ranks, up again, down ... (Hanayo).
  static placement waves(std::int32_t ranks, std::int32_t stages);
  /// Stage s on rank s, and its copy 1 on rank ranks - 1 - s (DualPipe).
  static placement two_directions(std::int32_t ranks);

  friend bool operator==(const placement&, const placement&) = default;
};

/// Also of ranks, and of stages.
constexpr std::int32_t most_microbatches = 1 << 28;

/// Size of a schedule. `breadth`: microbatches in a group of `depth_first`; 0
/// lets the schedule choose. `slices`: parts of a microbatch.
struct schedule_shape {
  std::int32_t ranks = 1;
  std::int32_t stages_per_rank = 1;
  std::int32_t microbatches = 1;
  std::int32_t breadth = 0;
  std::int32_t slices = 1;
};

/// Its stages, placed looped. Throws `error` (invalid_argument) if ranks or
/// stages are out of range.
placement placement_of(const schedule_shape& shape);

/// When each stage updates its parameters within a step, by itself (PipeDream);
/// by default all do once, at the end of the step. In place of the step's
/// microbatches, a group of them gives the gradients of an update.
struct update_rule {
  static constexpr std::int32_t newest = -1;

  std::int32_t every = 0;  // microbatches a group; 0: the whole step
  /// A forward of group g reads the parameters that its stage had after
  /// g - lag updates of this step (the first ones, of the step's begin);
  /// `newest`: after all updates that stand before it in its lane.
  std::int32_t lag = newest;

  friend bool operator==(const update_rule&, const update_rule&) = default;
};

/// The order in which each rank runs its forwards and backwards: compute only,
/// no messages. Plain data; made by the DSL, a built-in, or a CSV file.
struct schedule {
  std::string name = "custom";
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  troupe::placement placement{};
  std::vector<troupe::lane> lanes{};  // by rank
  update_rule update{};

  std::int32_t ranks() const { return placement.ranks; }
  std::int32_t stages() const { return placement.stages(); }
  std::span<const op> lane(std::int32_t rank) const {
    return lanes[slot(rank)];
  }

  /// Calls `fill` once for every rank to write its lane (lane_builder.hpp).
  /// Stages are placed looped, or by a placement. Throws `error` if the
  /// lanes are not a legal step.
  static schedule build(const schedule_shape& shape,
                        const std::function<void(lane_builder&)>& fill,
                        std::string name = "custom");
  static schedule build(troupe::placement placement, std::int32_t microbatches,
                        const std::function<void(lane_builder&)>& fill,
                        std::string name = "custom");

  friend bool operator==(const schedule&, const schedule&) = default;
};

/// "2F3", or "2F3.1" if the schedule has slices.
inline std::string to_text(const schedule& of, const op& what) {
  return to_text(what, of.slices > 1);
}

}  // namespace troupe
