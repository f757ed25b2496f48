#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace troupe {

class order_log;
enum class lane_order : std::uint8_t;  // engine/plan/plan.hpp

struct loading_options {
  std::int32_t prefetch = 2;  // microbatches made ahead; 0: when asked for
  double slow_seconds = 1;    // a longer load is reported
};

/// In seconds.
struct time_limits {
  double stall = 30;  // without an op: log which rank waits for which; 0: never
  /// How long a step may still take when the run is to end with it; then it is
  /// interrupted.
  double finish = 10;
  /// How long the end of a run waits for an op or a load that runs. One that
  /// does not return is then named in the log and left behind, with the
  /// threads of the run and all that they hold: what it reaches by reference
  /// has to outlive it.
  double leave = 10;
};

/// How actors execute a plan: the trained parameters are the same.
struct execution_options {
  /// Which ops that can run overtake others of their rank; by default none
  /// (lane_order::strict).
  lane_order order{};
  /// Training steps start their ops as this log says; null: by `order`.
  std::shared_ptr<const order_log> replay{};
  /// What a straggler does (tests): by rank, by how much its compute ops take
  /// longer, from a step on; the rank waits for so long.
  std::vector<double> slow{};
  std::int64_t slow_from = 1;
  std::int32_t intra_op_threads = 1;  // of LibTorch, a worker
  /// Updates wait until the gradients of all stages are known, also where
  /// nothing is clipped, so that monitors can watch (subscription::watches). It
  /// does nothing with a plan whose updates don't, nor with updates within a
  /// step.
  bool holds_updates = false;
  loading_options loading{};
  time_limits limits{};
  /// Runs at the start of every handler of every actor (tests: delays).
  std::function<void()> handler_hook{};
};

}  // namespace troupe
