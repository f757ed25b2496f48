#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/base/fields.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/transport/frame.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

TROUPE_FIELDS(run_progress, step, microbatches, loss_scale, good_steps, skipped)

/// A stage of a replica, whose state is kept, or moves.
struct stage_place {
  std::int32_t data_rank = 0;
  stage_instance stage;

  friend constexpr auto operator<=>(const stage_place&,
                                    const stage_place&) = default;
};
TROUPE_FIELDS(stage_place, data_rank, stage)

/// The head of a frame with a stage's state: its tensors are the parameters and
/// buffers, by name, then the optimizer's state (`packed`).
struct stage_state_head {
  stage_place place;
  run_progress progress;  // of the run with that state
  std::vector<std::string> names;
};
TROUPE_FIELDS(stage_state_head, place, progress, names)

/// A state that a process holds.
struct held_state {
  stage_place place;
  run_progress progress;
  std::int64_t bytes = 0;  // of its tensors
};
TROUPE_FIELDS(held_state, place, progress, bytes)

/// States of stages in this process's memory, by step: of its own stages, and
/// copies of those of other processes. Of each stage the two newest are kept.
/// Any thread.
class state_copies {
 public:
  /// Throws `transport` for a frame that holds no state.
  void keep(frame copy);
  /// The tensors of the older one of two states of a stage, which is not held
  /// any more then, for another copy; none where something else uses them.
  tensor_list take_oldest(const stage_place& of);
  std::vector<held_state> held() const;
  std::int64_t bytes() const;
  /// Throws `internal` if it is not held.
  frame at(const stage_place& of, std::int64_t step) const;
  /// Waits until states of these stages after this step have come. `given_up`
  /// is asked now and then; returns false once it says so.
  bool await(const std::vector<stage_place>& of, std::int64_t step,
             const std::function<bool()>& given_up) const;
  /// Forgets the states of later steps.
  void forget_after(std::int64_t step);

 private:
  struct kept {
    run_progress progress;
    frame copy;
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<stage_place, std::map<std::int64_t, kept>> all_;
};

/// The process that keeps a copy of a rank's state besides its host: the next
/// one. None where it is not needed, as a replica in another process has the
/// same state, or where there is no other process.
std::optional<std::int32_t> keeper_of(const job_layout& layout,
                                      std::int32_t data_rank, std::int32_t rank,
                                      bool sharded);

/// Where the states come from with which a job goes on.
struct recovery {
  run_progress progress;
  struct source {
    std::int32_t process = 0;
    stage_place place;  // the same, or a replica's
  };
  std::map<stage_place, source> sources;
  std::int64_t moved_bytes = 0;  // of states that their hosts do not hold
};

/// The newest step of which each of the stages has a state in a process.
/// `held`: by process. `equal`: whether a state of the second stage is one of
/// the first. A stage's host is preferred, then the first process that has it.
/// Null: there is no such step.
std::optional<recovery> choose_recovery(
  const std::vector<std::vector<held_state>>& held,
  const std::map<stage_place, std::int32_t>& hosts,
  const std::function<bool(const stage_place&, const stage_place&)>& equal);

}  // namespace troupe
