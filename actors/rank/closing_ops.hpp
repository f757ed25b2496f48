#pragma once

#include <optional>

#include "troupe/actors/rank/plan_executors.hpp"
#include "troupe/actors/rank/rank_setup.hpp"

namespace troupe {

/// What a rank does for updates: each gets the verdict on the norm of all
/// stages, if the rank is to wait for it. One thread at a time.
class closing_ops {
 public:
  explicit closing_ops(const rank_setup& setup) : setup_(setup) {}

  /// A verdict that came before the step began here, as the powers of one
  /// replica are enough for it, is taken.
  void begin(const step_pointer& step, executed_plan& plan);
  /// Of this step or a later one; others, and repeated ones, are ignored.
  void on(const norm_known& message);
  /// Adds the verdict to the request of an update.
  void add_norm(const plan_op& op, run_op& request, op_record& record) const;

 private:
  const rank_setup& setup_;
  step_pointer step_;
  executed_plan* plan_ = nullptr;
  std::optional<norm_known> norm_;
};

}  // namespace troupe
