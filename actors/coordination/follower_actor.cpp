#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "troupe/actors/coordination/step_supervisor.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/engine/events/interest.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

namespace {

struct follower_state : step_supervisor {
  step_pointer wanted = {};             // until the leader begins it
  std::deque<remote_begin> begun = {};  // by the leader, and not here
  std::int64_t awaited = 0;             // serial at the last check
  step_pointer running = {};
  /// Outcomes of steps that have not begun here yet: the other processes do not
  /// wait for a process that hosts no rank.
  std::deque<remote_outcome> outcomes = {};
  kept_interest interest = {};
  std::vector<rank_done> reports = {};

  void begin(const run_step& request) {
    wanted = request.step;
    last_serial = request.step->serial;
    if (!failed.empty())
      return answer({});
    begin_if_both_do();
    if (wanted)
      check_later();
    limit_time(*request.step);
  }

  /// Process 0 ends the run for all, after a step that all do.
  void on(const finish_run& request) {
    const auto& step = wanted ? wanted : running;
    if (accept(request)) {
      book->links->tell(to_frame(request));
      if (step)
        limit_time(*step);
    } else if (ends && step && step->serial == request.overdue) {
      on(interrupt_run{ends->reason});
    }
  }

  /// Process 0 tells all processes after which step they save.
  void on(const save_run&) {
    saves = true;
    book->links->tell(
      to_frame(save_run{wanted || running ? last_serial : last_serial + 1}));
  }

  void on(const watchdog_tick&) {
    check_progress(running);
    if (!wanted)
      return;
    const auto serial = wanted->serial;
    if (std::exchange(awaited, serial) == serial)
      log()->warn(
        "step {}: waiting for process 0, which has not begun it for {} s",
        wanted->settings.step, watch.limits.stall);
    check_later();
  }

  void on(const remote_begin& message) {
    begun.push_back(message);
    begin_if_both_do();
  }

  void begin_if_both_do() {
    if (!wanted || begun.empty() || !failed.empty())
      return;
    const auto leader = std::move(begun.front());
    begun.pop_front();
    auto step = std::make_shared<step_context>(*wanted);
    const auto divergence = difference(leader, as_remote(*step));
    if (!divergence.empty()) {
      on(op_failure{
        place,
        {},
        fmt::format("process {} runs a different step from process 0; do "
                    "both run the same program? {}",
                    book->links->layout().process, divergence)});
      return;
    }
    static_cast<step_wishes&>(step->settings) = leader.wishes;
    step->settings.interest = interest.same_as(leader.wishes.interest);
    running = step;
    wanted.reset();
    reports.clear();
    begin_here(step);
    take_early_outcome();
  }

  /// The leader may have ended the step before it began here.
  void take_early_outcome() {
    if (outcomes.empty() || outcomes.front().serial != running->serial)
      return;
    auto outcome = std::move(outcomes.front());
    outcomes.pop_front();
    on(outcome);
  }

  void on(const stage_powers& message) { book->links->tell(to_frame(message)); }

  void on(rank_done& report) {
    book->links->tell(to_frame(report));
    reports.push_back(std::move(report));
  }

  void on(const norm_verdict& message) { book->tell_ranks(self, message); }

  void on(remote_outcome& message) {
    if (!message.failure.empty()) {
      if (failed.empty()) {
        failed = message.failure;
        interrupted = message.interrupted;
        origin = message.origin;
      }
      end();
    } else if (running && message.serial == running->serial) {
      step_outcome outcome;
      outcome.event = std::move(message.event);
      outcome.end = std::move(message.end);
      if (outcome.end)
        ends.reset();  // told
      outcome.changes = message.changes;
      outcome.saves = message.saves;
      if (outcome.saves)
        saves = false;  // told
      outcome.runs_again = message.runs_again;
      answer(std::move(outcome));
    } else if (message.serial > last_serial || wanted) {
      outcomes.push_back(std::move(message));
    }
  }

  void answer(step_outcome outcome) {
    outcome.failure = failed;
    outcome.interrupted = interrupted;
    outcome.origin = origin;
    std::ranges::sort(reports, {}, [](const rank_done& report) {
      return std::pair(report.data_rank, report.rank);
    });
    outcome.ranks = std::exchange(reports, {});
    wanted.reset();
    running.reset();
    asked.deliver(std::move(outcome));
  }

  /// The run can't go on.
  void end() {
    book->end_transfers();
    if (interrupted && running)
      running->gate->close();
    if (running || wanted || asked.pending())
      answer({});
  }

  void on(const op_failure& failure) {
    if (!fail_with(failure))
      return;
    book->links->tell(to_frame(failure));
    end();
  }

  void on(const stop_run& request) {
    on(op_failure{place, {}, request.reason});
  }

  void on(const interrupt_run& request) {
    if (!failed.empty())
      return;
    note_interrupt(request);
    if (running)
      failed += fmt::format(" at step {}: {}", running->settings.step,
                            waits_of(*watch.progress, *running));
    book->links->tell(to_frame(
      interrupt_run{fmt::format("process {} was interrupted: {}",
                                book->links->layout().process, request.reason),
                    request.meets_again}));
    end();
  }

  void on(const peer_lost& gone) {
    if (fail_with(gone, running))
      end();
  }
};

}  // namespace

behavior_for<follower_handle> follower_actor(caf::event_based_actor* self,
                                             const supervision& watch,
                                             const run_record& so_far,
                                             const address_book_pointer& book,
                                             const handler_hook& hook) {
  return behavior_of_supervisor<follower_handle, remote_begin, stage_powers,
                                rank_done, norm_verdict, remote_outcome,
                                peer_lost, op_failure, stop_run, interrupt_run,
                                finish_run, save_run, watchdog_tick>(
    std::make_shared<follower_state>(
      follower_state{{self, watch, so_far, book, hook}}));
}

}  // namespace troupe
