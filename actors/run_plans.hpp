#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/job/admission.hpp"
#include "troupe/actors/trainer_setup.hpp"

namespace troupe {

/// The plan of the options, or of their schedule, with the overlap that they
/// want. `tied`: the stages that hold tied parameters, ascending. Throws as
/// `run_plans`.
plan_pointer training_plan(const trainer_options& options,
                           const stage_graph& graph,
                           const std::vector<std::int32_t>& tied);

/// The generation plans that ran last. All processes of a job keep the same
/// ones, as they generate the same.
class generation_plans {
 public:
  static constexpr std::size_t most = 16;

  /// The kept plan of that shape; null: it is not there.
  plan_pointer find(std::int32_t microbatches, std::int32_t positions);
  /// Forgets the one whose last use is longest ago, if there are too many.
  void keep(plan_pointer newest);
  std::size_t size() const { return kept_.size(); }

 private:
  std::vector<plan_pointer> kept_;  // the last one first
};

/// The plans that a trainer runs, compiled from its options, and the switch to
/// another order of training. One thread at a time, but for `training` and
/// `replan`.
class run_plans {
 public:
  /// The setup outlives it. Throws `invalid_argument` for a plan that does not
  /// fit the model or the options, and what compilation throws.
  explicit run_plans(const trainer_setup& setup);

  /// The one of the last training step, or of the next one before the first.
  plan_pointer training() const;
  const plan_pointer& evaluation() const { return evaluation_; }
  /// A step that generates so many tokens for each microbatch. All processes of
  /// a job make the call, and may run it when it returns.
  plan_pointer generation(std::int32_t microbatches, std::int32_t positions);
  /// The plans that other processes may tell this one to run.
  const std::shared_ptr<job_plans>& of_job() const { return of_job_; }

  /// See trainer.hpp; in a job the leading process alone. The switch is
  /// announced to all afterwards.
  void replan(const schedule& order);
  /// All processes know of a change (`step_report::changes`).
  void note_announced(bool announced) { announced_ |= announced; }
  /// No change is known, as processes have met again. Returns whether a switch
  /// was wished for here, and has to be announced once more.
  bool forget_announcement();
  /// Switches before training step `step`; in a job all processes make the call
  /// at the same one. Returns whether they know of a change, of this or another
  /// kind.
  bool take_up(std::int64_t step);
  /// So often has the run switched.
  std::int64_t switches() const { return switches_; }
  /// Goes on with a plan of a run that has switched so often, as its text: this
  /// process has joined it later.
  void go_on_with(const std::string& text, std::int64_t switches);

 private:
  const trainer_setup& setup_;
  /// Guards `training_`, which the thread that runs steps changes, and `next_`.
  mutable std::mutex mutex_;
  plan_pointer training_;
  plan_pointer next_;  // null: no other one
  bool announced_ = false;
  std::int64_t switches_ = 0;
  plan_pointer evaluation_;
  generation_plans generation_;
  std::shared_ptr<job_plans> of_job_;
};

}  // namespace troupe
