#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/plan/search/best_hosting.hpp"

namespace troupe {

/// When a job's ranks move by themselves; numbers of steps.
struct rebalance_rules {
  std::int64_t look_every = 50;
  std::int64_t least_measured = 20;  // of the epoch
  std::int64_t rest = 200;           // from one move to the next
  double least_gain = 0.05;          // of a step's time
  std::int64_t pays_within = 100;
};

/// Decides when to look for another hosting, and whether to take it; keeps a
/// job from moving ranks back and forth.
class rebalance_policy {
 public:
  using hosting = std::vector<std::int32_t>;

  explicit rebalance_policy(const rebalance_rules& rules = {})
    : rules_(rules) {}

  /// `pids`: of the processes that the hosting names.
  void begin_epoch(const std::vector<std::int64_t>& pids, const hosting& hosts);
  /// A step of the epoch was measured: whether to look for another hosting.
  bool looks_after(std::int64_t step);
  /// `left`: steps until the run ends.
  bool takes(const hosting_choice& choice, std::int64_t left) const;
  void note_move(std::int64_t step) { moved_at_ = step; }

 private:
  rebalance_rules rules_;
  std::vector<std::int64_t> pids_;
  hosting now_;
  std::vector<hosting> left_;  // hostings that these processes had before
  std::int64_t measured_ = 0;
  std::optional<std::int64_t> moved_at_;
};

/// The choice for a step that was measured to take so many seconds: what the
/// prediction does not explain does not get shorter.
hosting_choice calibrated(hosting_choice choice, double seconds);

}  // namespace troupe
