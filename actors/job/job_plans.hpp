#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The plans that the processes of a job may run, all of one placement: bounds
/// for what another process may send, which may begin a step before this one
/// does. Thread-safe.
class job_plans {
 public:
  explicit job_plans(const std::vector<std::shared_ptr<const plan>>& plans);

  /// Every process adds a plan before any of them runs it.
  void add(const plan& further);

  const placement& places() const { return placement_; }
  bool has_message(std::int32_t message) const;
  bool has_microbatch(std::int32_t microbatch) const;
  /// Most messages of one replica that may be sent and not consumed.
  std::int64_t most_credits() const;

 private:
  placement placement_;
  mutable std::mutex mutex_;
  std::int64_t messages_ = 0, microbatches_ = 0, credits_ = 0;  // at most
};

}  // namespace troupe
