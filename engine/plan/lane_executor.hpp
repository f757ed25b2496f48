#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What ops of a rank wait for that no op of the plan gives.
struct outside_waits {
  std::vector<bool> reads_data{};  // by stage: its forwards; empty: none do
  bool norm = false;               // updates, for the verdict on the norm
};

/// Executes a rank's part of a plan: which op starts next, from the plan's
/// dependencies and what has ended so far. Knows neither tensors nor threads;
/// one thread at a time. An op is launched (the host gives it to its stream),
/// one at a time, and ends later or at once: a compute op once it is launched,
/// also where a device still runs it. No op of the compute stream starts before
/// the one before has ended. A receive starts (is posted) without its message,
/// a collective without its other ends; each ends when those are there. In
/// strict order `next` takes constant time.
class lane_executor {
 public:
  /// The plan must outlive this; it is begun.
  lane_executor(const plan& plan, std::int32_t rank,
                lane_order order = lane_order::strict,
                const outside_waits& outside = {});

  /// Begins a step: no op has started. An `order`, of all ops of the rank,
  /// takes the place of the lane's; it must outlive the step.
  void begin(std::span<const std::uint32_t> order = {});

  /// An op of this rank, which has not started, waits for one thing more that
  /// no op of the plan gives; until as many releases. A release too many
  /// throws `internal`.
  void hold(std::uint32_t op);
  void release(std::uint32_t op);
  /// Releases the forwards that wait for a stage's microbatch: all slices, or
  /// the only one that has it.
  void data_arrived(std::int32_t stage, std::int32_t microbatch,
                    std::int16_t slice = none);
  /// All norms have ended, those of other ranks among them: releases updates.
  void norm_arrived();

  /// Starts the next op; none if one is being launched or all must wait.
  /// Without `compute`, no op of the compute stream.
  std::optional<std::uint32_t> next(bool compute = true);
  /// The host is done with the op that `next` gave.
  void launched(std::uint32_t op);
  /// The op has ended: one of this rank, launched before, or of another rank.
  void ended(std::uint32_t op);

  bool launching() const { return launching_ != none; }
  bool finished() const { return left_ == 0; }
  std::size_t ended_ops() const { return states_.size() - left_; }
  /// Where the rank stands: the op that is being launched, else the one whose
  /// end the compute stream waits for, else the first that has not started,
  /// else the first that has not ended; none once all have.
  std::optional<std::uint32_t> position() const;

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

 private:
  struct lane_op {
    bool computes = false;         // on the compute stream
    bool leads = false;            // F, B or I
    std::int8_t kept = 0;          // activations that it adds to those kept
    std::uint32_t stage = 0;       // of the rank's, from 0
    std::uint32_t series = 0;      // ops that keep their order among themselves
    std::uint32_t inputs = 0;      // ops that must end first
    std::uint32_t first_user = 0;  // into users_
  };
  enum class state : std::uint8_t { waiting, started, ended };
  /// Activations between their forward and what frees them.
  struct kept_count {
    explicit kept_count(std::size_t stages = 0) : by_stage(stages, 0) {}
    std::int32_t all = 0;
    std::vector<std::int32_t> by_stage;
  };

  bool is_here(std::uint32_t op) const {
    return op >= first_ && op - first_ < ops_.size();
  }
  /// Whether an op is to wait for an input before it starts.
  bool counts(const plan_op& op, std::uint32_t input) const;
  void describe_ops();
  void number_series();
  void list_users();
  void list_outside(const outside_waits& outside);
  bool can_start(std::uint32_t index, bool compute) const;
  bool in_order(std::uint32_t index) const;
  bool fits(std::uint32_t index) const;
  std::optional<std::uint32_t> next_ready(bool compute);
  std::optional<std::uint32_t> next_in_order(bool compute) const;
  void start(std::uint32_t index);
  void keep(kept_count& count, std::uint32_t index) const;
  /// Tells the users of an op that has ended. `first`: into users_.
  void tell_users(std::uint32_t op, std::size_t first);
  void input_ended(std::uint32_t index);

  const plan& plan_;
  lane_order order_;
  std::uint32_t first_;  // of the lane, in plan::ops
  std::vector<lane_op> ops_;
  /// Ops, also of other ranks, ascending, each with one of this rank, by its
  /// index, that waits for it.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> users_;
  std::vector<std::vector<std::uint32_t>> series_;
  kept_count most_kept_;
  std::vector<std::uint32_t> readers_;  // of data
  std::map<stage_instance, std::vector<std::int32_t>> data_orders_;
  std::vector<std::uint32_t> updates_;
  bool updates_wait_;                            // for the norm
  std::unordered_set<std::uint32_t> offloaded_;  // forwards

  std::span<const std::uint32_t> fixed_order_;  // an order; empty: none
  std::size_t started_ = 0;
  std::vector<std::uint32_t> waits_;  // by op: for so many
  std::vector<state> states_;
  std::vector<std::uint32_t> heads_;  // by series: how many have started
  std::uint32_t cursor_ = 0;          // the first that has not started
  std::uint32_t leader_ = 0;          // ... of F, B and I; not in strict order
  std::size_t left_ = 0;
  kept_count kept_;
  std::int64_t launching_ = none;
  std::int64_t computing_ = none;  // on the compute stream, not ended
};

}  // namespace troupe
