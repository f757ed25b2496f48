#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The devices of a run's ranks and stages that live in this process; null
/// elsewhere. On the CPU there are none. Any thread.
class run_devices {
 public:
  using pointer = std::shared_ptr<rank_device>;

  run_devices() = default;
  /// Ranks take the accelerators in turns, but for those that are here in
  /// `before`, which stay where they are. The first plan's pairs tell which
  /// compute stream of its rank a stage uses (`compute_streams`).
  run_devices(const std::vector<std::shared_ptr<accelerator>>& accelerators,
              const overlap_options& overlap, const job_layout& layout,
              const plan& first, const run_devices& before = {});

  bool empty() const { return of_ranks_.empty(); }
  /// An accelerator of this process, also where no rank lives in it; null if it
  /// has none.
  const std::shared_ptr<accelerator>& any() const { return any_; }
  /// Null: the CPU, or another process.
  pointer of(std::int32_t data_rank, std::int32_t rank) const;
  /// The rank's, with the stage's compute stream.
  pointer of(std::int32_t data_rank, stage_instance stage) const;
  /// The devices of ranks, by data rank and rank.
  const std::vector<std::vector<pointer>>& of_ranks() const {
    return of_ranks_;
  }

 private:
  std::shared_ptr<accelerator> any_;
  placement stages_;
  std::vector<std::vector<pointer>> of_ranks_;
  std::vector<std::vector<pointer>> of_stages_;  // by data rank and instance
};

}  // namespace troupe
