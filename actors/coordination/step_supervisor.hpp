#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "troupe/actors/coordination/coordinator_actor.hpp"
#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/job/run_texts.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

/// The coordinator waits this long for the cause of a process's loss to come
/// from elsewhere.
inline constexpr std::chrono::milliseconds patience_with_lost_peers{300};
/// The coordinator waits this long after a link has failed for what its other
/// side, which may well live, has to tell of that.
inline constexpr std::chrono::milliseconds patience_with_ended_links{2000};

/// Shared by the coordinators of the leading process and of the others: one
/// request at a time, a watchdog for a step that doesn't move, and an end of
/// the run that lasts. Lives in its actor; one handler at a time.
struct step_supervisor : run_record {
  step_supervisor(caf::event_based_actor* actor, const supervision& watches,
                  const run_record& so_far, address_book_pointer everybody,
                  handler_hook before)
    : run_record(so_far),
      self(actor),
      watch(watches),
      book(std::move(everybody)),
      hook(std::move(before)) {}

  caf::event_based_actor* self;
  supervision watch;
  address_book_pointer book;
  handler_hook hook;
  caf::typed_response_promise<step_outcome> asked = {};
  event_source place = {};  // the step that was asked for last
  bool will_check = false;
  std::vector<progress_board::entry> last_progress = {};  // checked

  /// Lets the ranks that live here begin, and checks their progress from now
  /// on.
  void begin_here(const step_pointer& step) {
    last_progress.clear();
    book->begin(self, step);
    check_later();
  }

  /// Checks once more after a while. One check is under way at a time:
  /// thousands of short steps may begin before it comes.
  void check_later() {
    if (watch.limits.stall > 0 && !std::exchange(will_check, true))
      self->delayed_send(self, milliseconds_of(watch.limits.stall),
                         watchdog_tick{});
  }

  /// Ends the step at once if it lasts too long for what is asked of it.
  void limit_time(const step_context& step) {
    if (ends && within > 0)
      self->delayed_send(self, milliseconds_of(within),
                         finish_run{*ends, step.serial});
  }

  /// Accepts a request to end the run if it is the first one, or the first that
  /// sets a limit; returns whether it did.
  bool accept(const finish_run& request) {
    if (request.overdue != 0 || (ends && (within > 0 || request.within == 0)))
      return false;
    ends = request.end;
    within = request.within;
    return true;
  }

  /// Logs who waits for whom if no op has ended since the last check, and on
  /// which calls links between devices are stuck. `running`: null between
  /// steps.
  void check_progress(const step_pointer& running) {
    will_check = false;
    if (!running)
      return;
    const auto step = running->settings.step;
    if (book->transfers)
      for (const auto& text : book->transfers->stuck())
        log()->warn("step {}: {}", step, text);
    auto now = watch.progress->snapshot();
    if (now == last_progress)
      log()->warn("step {}: no op ended in the last {} s: {}", step,
                  watch.limits.stall, waits_of(*watch.progress, *running));
    last_progress = std::move(now);
    check_later();
  }

  /// Sends itself a consequence once more after `patience`, as what caused it
  /// may be on its way on another line and is to be reported in its place.
  template <class Consequence>
  void defer(Consequence what, std::chrono::milliseconds patience) {
    what.for_good = true;
    self->delayed_send(self, patience, std::move(what));
  }

  /// Ends the run, or the epoch of a job that heals.
  void note_interrupt(const interrupt_run& request) {
    interrupted = true;
    if (request.meets_again)
      origin.kind = failure_kind::link;
    failed = request.reason;
  }

  /// Whether the failure may be none of the run's.
  bool may_heal() const {
    return book->kept
           && (origin.kind == failure_kind::link
               || (origin.kind == failure_kind::op && book->heals_ops));
  }

  /// Fails the run because a process is gone, at once or a little later;
  /// returns whether it failed now.
  bool fail_with(const peer_lost& gone, const step_pointer& running) {
    if (!failed.empty())
      return false;
    if (!gone.for_good) {
      defer(gone, patience_with_lost_peers);
      return false;
    }
    failed = to_text(gone, book->links->layout());
    origin.kind = failure_kind::link;
    if (running)
      failed += "; " + waits_of(*watch.progress, *running);
    return true;
  }

  /// Fails the run because of an op's failure, at once or a little later;
  /// returns whether it failed now.
  bool fail_with(const op_failure& failure) {
    if (!failed.empty())
      return false;
    if (!failure.for_good) {
      defer(failure, patience_with_ended_links);
      return false;
    }
    failed = to_text(failure);
    origin = {failure.kind, failure.process, failure.source};
    return true;
  }
};

/// The behavior of such a coordinator: `begin` of its state gets the steps,
/// `on` all other messages, and the failures of both, at its `place`.
template <class Handle, class... Messages, class State>
behavior_for<Handle> behavior_of_supervisor(std::shared_ptr<State> state) {
  const auto handle = [state](const auto& work) {
    try {
      if (state->hook)
        state->hook();
      work();
    } catch (...) {
      state->on(op_failure{state->place, {}, thrown_text()});
    }
  };
  const auto on = [state, handle](auto& message) {
    handle([&] { state->on(message); });
  };
  return behavior_by<Handle, Messages...>(
    on,
    [state, handle](const run_step& request) {
      state->asked =
        state->self->template make_response_promise<step_outcome>();
      state->place.step = request.step->settings.step;
      state->place.phase = request.step->settings.phase;
      handle([&] { state->begin(request); });
      return state->asked;
    },
    [state](const hand_over&) { return static_cast<run_record>(*state); });
}

}  // namespace troupe
