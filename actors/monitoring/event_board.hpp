#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/events/interest.hpp"

namespace troupe {

/// The union of all monitors' wishes, for publishers. Thread-safe; threads that
/// run steps only do a relaxed load.
class event_board {
 public:
  /// Returns the new epoch: what is published of steps that begin from now on
  /// carries it, or a later one.
  std::int64_t set(std::vector<subscription> all);

  bool wants_ops() const { return ops_.load(std::memory_order_relaxed); }
  /// The wishes for a step; called once for each, when it begins. It is watched
  /// for those that want that if it `can_run_again`.
  step_wishes wishes_for(std::int64_t step, phase of,
                         bool can_run_again = false);

  /// Observes only every n-th of the steps whose tensors are subscribed (set by
  /// the budget monitor). All subscribers see an observed step; exempt ones see
  /// every step.
  void observe_every(std::int64_t steps) { stride_ = steps; }
  std::int64_t observed_every() const { return stride_; }

  /// Adds processor time that a call of a monitor took, in ns.
  void spent(std::int64_t ns) { spent_ += ns; }
  std::int64_t take_spent() { return spent_.exchange(0); }

 private:
  std::atomic<bool> ops_{false};
  std::atomic<std::int64_t> stride_{1};
  std::atomic<std::int64_t> spent_{0};
  mutable std::mutex mutex_;
  struct wish {
    subscription wants;
    std::int64_t since = 0;  // steps it wanted since it was last shown one
  };
  std::vector<wish> all_;
  std::int64_t epoch_ = 0;
  /// The interest of the last step that had one, for others like it: those who
  /// hold it know by the pointer that nothing has changed.
  struct step_interest {
    std::vector<bool> wanted;  // which subscriptions
    std::int64_t epoch = -1;
    std::shared_ptr<const tensor_interest> interest;
  };
  step_interest latest_;
  step_interest latest_on_hit_;

  std::vector<bool> wanted_in(std::int64_t step, phase of);
  interest_pointer interest_of(const std::vector<bool>& wanted,
                               step_interest& latest) const;
};

}  // namespace troupe
