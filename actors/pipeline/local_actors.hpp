#pragma once

#include <memory>
#include <utility>

#include "troupe/actors/coordination/coordinator_actor.hpp"
#include "troupe/actors/pipeline/pipeline_options.hpp"
#include "troupe/actors/system/logger_scope.hpp"
#include "troupe/base/fail.hpp"

namespace troupe {

/// What actors know that outlives them.
struct handed_over {
  run_record run{};
  hub_monitors monitors{};
};

/// The actors of a run that live in this process, and what they run on.
class local_actors {
 public:
  /// Spawns them, and fills the book with them. `so_far`: of those whose place
  /// they take. Throws `device` if the process may not have the threads, and
  /// `invalid_argument` before `main`.
  local_actors(const pipeline_options& options, const supervision& watch,
               std::uint64_t run_id, const handed_over& so_far = {});
  ~local_actors();
  local_actors(const local_actors&) = delete;
  local_actors& operator=(const local_actors&) = delete;

  /// Ends them and their threads; one whose handler does not return in time is
  /// named in the log, and all are left behind with their threads and what they
  /// hold. Returns whether none was. The destructor does so, too; no other
  /// member is called afterwards.
  bool end();

  const address_book_pointer& book() const;

  /// An actor's answer, for which the calling thread waits. Throws `internal`
  /// if the actor has terminated.
  template <class Answer, class Handle, class... Request>
  Answer ask(const Handle& whom, Request&&... request) const {
    const logger_scope restored;
    const caf::scoped_actor self(system());
    Answer answer{};
    self->request(whom, caf::infinite, std::forward<Request>(request)...)
      .receive([&](Answer& received) { answer = std::move(received); },
               [&](const caf::error& reason) {
                 fail(error_code::internal, "an actor has terminated: {}",
                      caf::to_string(reason));
               });
    return answer;
  }

  /// The step that runs, or ran last; for the log.
  void note(step_pointer step) { last_ = std::move(step); }

 private:
  struct state;
  caf::actor_system& system() const;

  std::unique_ptr<state> state_;
  supervision watch_;
  step_pointer last_;
};

}  // namespace troupe
