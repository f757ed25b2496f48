#pragma once

#include "troupe/actors/coordinator_actor.hpp"
#include "troupe/actors/pipeline.hpp"

namespace troupe {

/// The actors of a run that live in this process, and what they run on. It
/// ends them; one whose handler does not return in time is named in the log,
/// and all are left behind with their threads and what they hold.
class crew {
 public:
  /// Makes them and introduces them to each other. Throws `device` if the
  /// process may not have the threads.
  crew(const pipeline_options& options, const supervision& watch,
       std::uint64_t run_id);
  ~crew();
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  caf::actor_system& system();
  const address_book_pointer& book() const;

  /// The step that runs, or ran last; for the log.
  void note(step_pointer step);

 private:
  struct hall;
  void leave_behind();

  std::unique_ptr<hall> hall_;
  supervision watch_;
  double leave_seconds_;
  step_pointer last_;
};

}  // namespace troupe
