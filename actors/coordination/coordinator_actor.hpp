#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/monitoring/event_board.hpp"
#include "troupe/actors/step/execution_options.hpp"
#include "troupe/actors/step/load_board.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/actors/step/progress_board.hpp"
#include "troupe/engine/stage/numerics.hpp"

namespace troupe {

struct coordinator_setup {
  std::int32_t data_ranks = 1;
  std::int32_t ranks = 1;
  std::int32_t stages = 1;
  std::int32_t shards = 1;  // of each stage's gradients
  numerics arithmetic;
};

/// The coordinator's state of the running step: gathers the ranks' reports and
/// decides from the gradient norm whether and how to update.
class coordinator_core {
 public:
  explicit coordinator_core(coordinator_setup setup);

  void begin(step_pointer step);
  bool running() const { return step_ != nullptr; }
  const step_pointer& step() const { return step_; }
  /// The source of events and failures of the running step.
  event_source source() const;

  /// The verdict, once the powers of all stages are here, in a watched step
  /// those of all instances of stages. Throws `mismatch` for powers of no stage
  /// or shard.
  std::optional<norm_verdict> on(stage_powers message);
  /// Throws `mismatch` for a rank that was done before.
  void require_first(const rank_done& report) const;
  /// The outcome, once all ranks are done; throws as `require_first` does.
  std::optional<step_outcome> on(rank_done report);
  /// Whether the verdict was that the step is run again, to be read: its events
  /// are those of the second run.
  bool runs_again() const { return runs_again_; }
  /// The outcome of a step that can't be finished.
  step_outcome abandon(std::string reason, bool interrupted);

 private:
  std::size_t place_of(const rank_done& report) const;
  void note(stage_powers message);
  bool has_all_powers() const;
  bool is_watched() const;
  step_outcome conclude();
  step_event summary() const;

  coordinator_setup setup_;
  step_pointer step_;
  std::int64_t begin_ = 0;
  std::vector<std::optional<std::vector<double>>>
    powers_;  // by stage, then shard
  double norm_ = 0;
  bool finite_ = true;
  std::int32_t told_ = 0;  // messages of powers
  bool hit_ = false;
  bool changed_buffers_ = false;
  bool runs_again_ = false;
  /// Parameters whose gradient is not finite, by stage and place in it.
  std::map<std::pair<std::int32_t, std::ptrdiff_t>, std::string> not_finite_;
  std::vector<std::optional<rank_done>> reports_;
  std::size_t reported_ = 0;
};

struct supervision {
  std::shared_ptr<progress_board> progress;
  std::shared_ptr<event_board> events;
  std::shared_ptr<load_board> loads;
  time_limits limits;
  /// The leading process has a plan, or a hosting, that the others don't know
  /// yet.
  std::shared_ptr<std::atomic<bool>> new_change;
};

/// Begins and ends steps, supervises all others, and answers each `run_step`
/// with one `step_outcome`. After a failure or an interrupt every further
/// step has that outcome. `so_far`: of the coordinator whose place it takes.
behavior_for<coordinator_handle> coordinator_actor(
  caf::event_based_actor* self, const coordinator_setup& setup,
  const supervision& watch, const run_record& so_far,
  const address_book_pointer& book, const handler_hook& hook);

/// The coordinator of a process that doesn't lead its job: begins the steps
/// that process 0 begins, hands on what its ranks report, and answers each
/// `run_step` with the outcome that process 0 tells. A program that runs
/// another step than process 0 does is an error that names the difference.
behavior_for<follower_handle> follower_actor(caf::event_based_actor* self,
                                             const supervision& watch,
                                             const run_record& so_far,
                                             const address_book_pointer& book,
                                             const handler_hook& hook);

}  // namespace troupe
