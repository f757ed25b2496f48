#pragma once

#include "troupe/actors/system/caf.hpp"

namespace troupe {

// The protocols of actors: a message that an actor does not take can't be sent
// to its handle, and each behavior is checked against its handle.

/// An actor that takes these messages, and answers none.
template <class... Messages>
using takes = caf::typed_actor<caf::result<void>(Messages)...>;

using rank_handle = takes<begin_step, norm_known>;
using stage_handle = takes<run_op, stage_tensors, loaded_data, chosen_tokens,
                           collective_result, end_step>;
using loader_handle = takes<begin_step, want_data, prefetch_data>;
using reducer_handle = takes<collective_request, collective_part>;
/// The coordinator of any process, the leading one included.
using coordinator_handle =
  takes<stage_powers, rank_done, op_failure, peer_lost, stop_run, finish_run,
        save_run, interrupt_run,
        watchdog_tick>::extend<caf::result<step_outcome>(run_step)>;
/// Follows the leading process's coordinator.
using follower_handle =
  coordinator_handle::extend<caf::result<void>(remote_begin),
                             caf::result<void>(norm_known),
                             caf::result<void>(remote_outcome)>;

/// A behavior that handles what the handle promises, no more and no less.
template <class Handle, class... Handlers>
caf::behavior behavior_of(Handlers... handlers) {
  typename Handle::behavior_type checked{std::move(handlers)...};
  return std::move(checked.unbox());
}

/// The same, in which `on` handles each of `Messages`.
template <class Handle, class... Messages, class On, class... Handlers>
caf::behavior behavior_by(On on, Handlers... others) {
  return behavior_of<Handle>([on](Messages& message) { on(message); }...,
                             std::move(others)...);
}

}  // namespace troupe
