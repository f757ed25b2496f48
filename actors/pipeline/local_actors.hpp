#pragma once

#include "troupe/actors/coordination/coordinator_actor.hpp"
#include "troupe/actors/pipeline/pipeline.hpp"

namespace troupe {

/// The actors of a run that live in this process, and what they run on.
class local_actors {
 public:
  /// Makes them and introduces them to each other. Throws `device` if the
  /// process may not have the threads.
  local_actors(const pipeline_options& options, const supervision& watch,
               std::uint64_t run_id);
  ~local_actors();
  local_actors(const local_actors&) = delete;
  local_actors& operator=(const local_actors&) = delete;

  /// Ends them and their threads; one whose handler does not return in time is
  /// named in the log, and all are left behind with their threads and what they
  /// hold. Returns whether none was. The destructor does so, too; no other
  /// member is called afterwards.
  bool end();

  caf::actor_system& system();
  const address_book_pointer& book() const;

  /// The step that runs, or ran last; for the log.
  void note(step_pointer step);

 private:
  struct state;

  std::unique_ptr<state> state_;
  supervision watch_;
  double leave_seconds_;
  step_pointer last_;
};

}  // namespace troupe
