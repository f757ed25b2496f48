#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// A rank's preference among the ops that are ready.
enum class preference : std::uint8_t {
  backward,              // backwards before forwards
  forward,               // forwards before backwards
  deep_stage,            // later stages of the model first
  shallow_stage,         // earlier stages first
  early_microbatch,      // lower microbatches first
  weight_backward_last,  // weight gradients only if nothing else is ready
  early_start,           // earlier `lane_rules::start` first
};

/// Rules for generating lanes: a simulation of all ranks, in which each free
/// rank starts the ready op that it prefers, within its limit.
struct lane_rules {
  /// Most activations that a rank may hold (forwarded and not freed); unlimited
  /// if empty.
  std::function<std::int32_t(std::int32_t rank)> in_flight_limit{};
  /// Most microbatches that a stage may have forwarded and not yet passed back
  /// (B or I); unlimited if empty.
  std::function<std::int32_t(std::int32_t stage)> stage_limit{};
  /// When an op would start if nothing delayed it, for `early_start`.
  std::function<double(const op&)> start{};
  /// The first preference that distinguishes two ready ops decides; then the
  /// lower microbatch, then the lower stage.
  std::vector<preference> prefer{preference::backward};
  /// Input and weight gradients are two ops (Qi et al., zero bubble).
  bool split_backward = false;
  /// Simulated durations; a full backward takes the sum of its halves.
  double forward = 1;
  double input_backward = 1;
  double weight_backward = 1;
  double message = 0;
  /// Durations of single ops, and of messages between two ranks, in place of
  /// those above; not if empty.
  std::function<double(const op&)> duration{};
  std::function<double(std::int32_t rank, std::int32_t other)>
    message_between{};
};

/// Generates the lanes by these rules. Each stage takes its microbatches in
/// ascending order. Throws `error` (deadlock) if the limits leave no rank an op
/// that it may start.
schedule build_by_rules(const placement& placement, std::int32_t microbatches,
                        const lane_rules& rules, std::string name = "custom");
schedule build_by_rules(const schedule_shape& shape, const lane_rules& rules,
                        std::string name = "custom");

}  // namespace troupe
