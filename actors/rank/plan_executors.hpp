#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/engine/plan/lane_executor.hpp"

namespace troupe {

/// A rank's part of a plan: what executes it, and the ops that wait for things
/// outside the plan.
class executed_plan {
 public:
  executed_plan(std::shared_ptr<const troupe::plan> plan,
                const rank_setup& setup);

  const std::shared_ptr<const troupe::plan>& plan() const { return plan_; }
  lane_executor& executor() { return executor_; }
  /// Begins a step: forwards that read data wait for it, and updates for the
  /// norm, if the rank is to wait. `order` as lane_executor::begin takes it.
  void begin(std::span<const std::uint32_t> order);
  /// `slice`: loaded_data::all_slices, or the only one that has it.
  void data_arrived(std::int32_t stage, std::int32_t microbatch,
                    std::int16_t slice);
  /// By instance of a stage on this rank: the microbatches that it reads data
  /// of, in lane order.
  const std::map<stage_instance, std::vector<std::int32_t>>& data_orders()
    const {
    return data_orders_;
  }
  /// Whether what a forward keeps will be offloaded.
  bool offloads(std::uint32_t forward) const {
    return offloaded_.contains(forward);
  }
  /// All norms have ended, those of other ranks among them.
  void norm_arrived();

 private:
  std::shared_ptr<const troupe::plan> plan_;
  std::int32_t rank_;
  bool waits_for_norm_;
  lane_executor executor_;
  std::vector<std::uint32_t> readers_;  // of data; by stage and microbatch
  std::map<stage_instance, std::vector<std::int32_t>> data_orders_;
  std::vector<std::uint32_t> updates_;
  std::unordered_set<std::uint32_t> offloaded_;  // forwards
};

/// The plans that a rank used last: those of training and evaluation, or of a
/// step's parts.
class plan_executors {
 public:
  explicit plan_executors(const rank_setup& setup) : setup_(setup) {}

  /// That of the step's plan, begun; valid until the next call.
  executed_plan& begin(const step_context& step);

 private:
  const rank_setup& setup_;
  std::vector<std::unique_ptr<executed_plan>> known_;  // the last one first
};

}  // namespace troupe
