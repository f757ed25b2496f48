#pragma once

#include <functional>
#include <utility>

#include "troupe/actors/system/caf.hpp"

namespace troupe {

// The protocols of actors: a message that an actor does not take can't be sent
// to its handle, and each behavior is checked against its handle.

/// An actor that takes these messages, and answers none.
template <class... Messages>
using takes = caf::typed_actor<caf::result<void>(Messages)...>;

/// The first stage of a rank takes the rank's begins and verdicts.
using stage_handle = takes<run_op, stage_tensors, loaded_data, chosen_tokens,
                           collective_result, begin_step, norm_verdict>;
using loader_handle = takes<begin_step, want_data, prefetch_data>;
using reducer_handle = takes<collective_request, collective_part>;
/// The coordinator of any process, the leading one included.
using coordinator_handle =
  takes<stage_powers, rank_done, op_failure, peer_lost, stop_run, finish_run,
        save_run, interrupt_run,
        watchdog_tick>::extend<caf::result<step_outcome>(run_step),
                               caf::result<run_record>(hand_over)>;
/// Follows the leading process's coordinator.
using follower_handle =
  coordinator_handle::extend<caf::result<void>(remote_begin),
                             caf::result<void>(norm_verdict),
                             caf::result<void>(remote_outcome)>;

/// A behavior that handles what the handle promises, no more and no less.
template <class Handle>
using behavior_for = typename Handle::behavior_type;

/// One in which `on` handles each of `Messages`.
template <class Handle, class... Messages, class On, class... Handlers>
behavior_for<Handle> behavior_by(On on, Handlers... others) {
  return {[on](Messages& message) { on(message); }..., std::move(others)...};
}

/// Spawns an actor whose behavior is the handle's: `spawn` gets a function that
/// CAF calls with the actor, by the worker that first runs it. The one cast
/// from an untyped actor, as members of strands and supervisors are the same
/// class for all handles.
template <class Handle, class Spawn>
Handle spawn_typed(
  const Spawn& spawn,
  std::function<behavior_for<Handle>(caf::event_based_actor*)> behavior) {
  return caf::actor_cast<Handle>(
    spawn([behavior = std::move(behavior)](caf::event_based_actor* self) {
      return caf::behavior(std::move(behavior(self).unbox()));
    }));
}

}  // namespace troupe
