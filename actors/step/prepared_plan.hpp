#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/engine/plan/lane_executor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/step_settings.hpp"

namespace troupe {

/// What a run derives from a plan: computed once, used by all of its steps.
class prepared_plan {
 public:
  /// `hashes`: other processes compare the plan by its hash.
  prepared_plan(plan_pointer what, std::int32_t data_ranks, bool hashes);

  const plan_pointer& plan() const { return plan_; }
  const plan_traits& traits() const { return traits_; }
  /// 0 unless it is hashed.
  std::uint64_t hash() const { return hash_; }
  /// A rank's executor, made at its first use; each is for its rank's thread
  /// alone. The arguments are the same in all calls of a rank.
  lane_executor& executor(std::int32_t data_rank, std::int32_t rank,
                          lane_order order, const outside_waits& outside);

 private:
  const plan_pointer plan_;
  const plan_traits traits_;
  const std::uint64_t hash_;
  std::vector<std::unique_ptr<lane_executor>> executors_;  // by replica, rank
};

/// The plans of a run, prepared. One is kept for as long as its owner (the
/// trainer, a user's program, an event) keeps the plan. One thread at a time.
class prepared_plans {
 public:
  prepared_plans(std::int32_t data_ranks, bool hashes)
    : data_ranks_(data_ranks), hashes_(hashes) {}

  std::shared_ptr<prepared_plan> prepared(const plan_pointer& plan);
  std::size_t size() const { return all_.size(); }

 private:
  const std::int32_t data_ranks_;
  const bool hashes_;
  std::vector<std::shared_ptr<prepared_plan>> all_;
};

}  // namespace troupe
