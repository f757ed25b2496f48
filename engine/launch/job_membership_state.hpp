#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/authority_link.hpp"
#include "troupe/engine/launch/epoch_processes.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/launch/own_request.hpp"
#include "troupe/engine/launch/waiting_news.hpp"
#include "troupe/engine/membership/member.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/engine/transport/repeated_call.hpp"

namespace troupe {

/// The connection to the authority, and the state machine behind it.
struct job_membership::impl {
  static constexpr std::chrono::milliseconds look_every{50};

  explicit impl(membership_options wanted)
    : options(std::move(wanted)),
      is_local(options.authority.starts_with("unix:")),
      link(loop, options.authority, options.joining.shown,
           {.request = [this] { return request(); },
            .arrived = [this](const auto& message) { take(message); },
            .lost = [this] { changed.notify_all(); }}),
      looks(loop, look_every, [this] { look(); }) {}

  void finish() {
    looks.stop();
    if (is_local && link.lost_since())
      link.stop_connecting();  // a launcher that has ended does not come back
    link.finish();
  }

  void join() {
    std::unique_lock lock(mutex);
    const auto has_answer = [this] { return self || refusal || is_stopped(); };
    const auto until =
      std::chrono::steady_clock::now() + options.joining.patience;
    waiting_news waiting(options.joining);
    while (!has_answer() && std::chrono::steady_clock::now() < until) {
      waiting.tell([this] { return "waiting: " + trouble(); });
      changed.wait_for(lock, look_every);
    }
    if (refusal)
      fail(error_code::mismatch, "the job's authority refuses this process: {}",
           *refusal);
    if (!has_answer())
      fail(error_code::transport, "for {:.3g} s {}",
           1e-3 * static_cast<double>(options.joining.patience.count()),
           trouble());
    if (!self)
      fail_stopped();
  }
  std::string trouble() const {
    return fmt::format("the job's authority at {} can't be asked: {}",
                       options.authority,
                       early_refusal.empty() ? link.trouble() : early_refusal);
  }

  membership_request request() {
    const std::scoped_lock lock(mutex);
    return own_request(options, own);
  }

  // On the loop's thread, up to `look`.

  void take(const membership_message& message) {
    const std::scoped_lock lock(mutex);
    if (const auto* welcome = std::get_if<membership_welcome>(&message))
      begin(*welcome);
    else if (const auto* refused = std::get_if<membership_refusal>(&message))
      note(*refused);
    else if (const auto* place = std::get_if<epoch_meeting>(&message))
      meeting = *place;
    else if (const auto* order =
               std::get_if<membership::authority_order>(&message);
             order != nullptr && self) {
      is_done |=
        order->kind == membership::order_kind::leave && !order->reason.empty();
      act(self->receive(membership_time(), *order));
    } else
      fail(error_code::transport, "that message is not an authority's");
    changed.notify_all();
  }

  void look() {
    std::function<void()> call;
    {
      const std::scoped_lock lock(mutex);
      if (!is_local && link.lost_since())
        away_until = membership_time();
      if (self)
        act(self->tick(membership_time()));
      if (self && !is_at_rest)
        call = next_call();
    }
    if (call)
      call();
  }

  /// Whether this process wants to leave, and no other one takes its ranks in
  /// time. An authority elsewhere that can't be asked now gets more time:
  /// another one may be elected.
  bool leave_is_overdue() const {
    const auto now = membership_time();
    return leaves_since
           && (now - std::max(*leaves_since, away_until) >= options.leave_within
               || now - *leaves_since >= 4 * options.leave_within);
  }

  /// First the executor is asked to come to rest, and then, once, told to.
  std::function<void()> next_call() {
    const auto stage = self->stage();
    if (stage == membership::member_stage::running && events.stays
        && leave_is_overdue()) {
      leaves_since.reset();
      return events.stays;
    }
    if (stage != membership::member_stage::freezing
        && stage != membership::member_stage::left)
      return {};
    const bool at_once = membership_time() - asked_at >= options.rest_within;
    const auto links = at_once ? ending_links() : nullptr;
    const int wanted = at_once ? 2 : 1;
    const bool tells = calls < wanted && events.change;
    if (!tells && !links)
      return {};
    if (tells)
      calls = wanted;
    return [this, change = tells ? events.change : nullptr, ends = met, at_once,
            links] {
      if (change)
        change(ends, at_once);
      if (links && links->has_silent())
        leave_stalled(*links);
    };
  }

  /// The links of an epoch that is to end, if a process is silent that this one
  /// may wait for between steps, or while a trainer is made: the end of the
  /// links ends that wait. A process that has been told to leave still gives
  /// its states to others.
  std::shared_ptr<mesh> ending_links() const {
    const bool ends =
      self->stage() == membership::member_stage::freezing || job_stopped;
    return ends && calls < 3 ? links_of_epoch.lock() : nullptr;
  }
  void leave_stalled(mesh& links) {
    links.leave();
    const std::scoped_lock lock(mutex);
    calls = 3;
  }

  // With the lock.

  /// A process whose number has changed was given up meanwhile: it has no part
  /// in any epoch, and its steps are to end.
  void begin(const membership_welcome& welcome) {
    job = welcome.job;
    if (own == welcome.member)
      return link.send(own_meeting);
    own = welcome.member;
    heals_ops = welcome.heals_ops;
    self.emplace(
      membership::member_options{.self = own, .replaces = welcome.replaces},
      membership_time());
    if (leaves_since)
      act(self->drain(membership_time()));
  }
  void note(const membership_refusal& refused) {
    early_refusal = refused.reason;
    if (refused.is_early && !is_local)
      return;
    refusal = refused.reason;
    link.stop_connecting();
  }

  void act(const membership::member_output& out) {
    if (out.stops_steps && is_at_rest)
      return stop();
    if (out.stops_steps) {
      calls = 0;
      asked_at = membership_time();
    }
    if (out.report)
      link.send(*out.report);
    if (out.leaves || out.stops_job) {
      calls = 0;
      asked_at = membership_time() - options.rest_within;
    }
    if (out.stops_job)
      job_stopped = *out.stops_job;
    changed.notify_all();
  }
  /// With what is held.
  void stop() {
    self->checkpoint_saved(0);
    act(self->stopped(membership_time(), held));
  }
  bool is_out() const {
    return has_gone || self->stage() == membership::member_stage::left;
  }
  bool is_stopped() const {
    return options.joining.stopped && options.joining.stopped();
  }
  void require_membership() const {
    require_part(job_stopped, refusal);
    link.require_within(options.authority_away);
    if (is_stopped())
      fail_stopped();
  }
  bool is_frozen() const {
    return self->stage() == membership::member_stage::freezing
           || self->stage() == membership::member_stage::frozen;
  }
  /// The epoch that was met is over, for a reason of this process's own.
  void fail_epoch() {
    if (self->stage() == membership::member_stage::left || is_frozen()
        || met == 0 || self->current().number != met)
      return;
    act(self->fail(membership_time(), lost_link(met)));
  }

  /// Leaves the job if this process is told to end, the job runs, and the
  /// process has had no part in it.
  bool leaves_without_part() {
    if (!is_stopped() || met != 0 || !self->has_seen_epoch())
      return false;
    act(self->drain(membership_time()));
    return has_gone = true;
  }

  /// None if this process is to leave.
  std::optional<membership::epoch> await_epoch(
    std::unique_lock<std::mutex>& lock) {
    waiting_news waiting(options.joining);
    while (self->stage() != membership::member_stage::preparing
           || self->current().number == met) {
      if (leaves_without_part())
        return std::nullopt;
      require_membership();
      if (met == 0)
        waiting.tell([] { return waiting_for_a_part; });
      if (is_out())
        return std::nullopt;
      changed.wait_for(lock, look_every);
    }
    auto next = self->current();
    // On one machine, the launcher kills a process that is left out.
    const bool is_left_out = !is_local && met > 0 && next.number > met + 1;
    met = next.number;
    if (is_left_out && events.left_out) {
      const auto call = events.left_out;
      lock.unlock();
      call();
      lock.lock();
    }
    return next;
  }

  job_meeting meet(std::vector<membership::held_copy> copies,
                   const std::optional<failed_op>& why) {
    std::unique_lock lock(mutex);
    held = std::move(copies);
    if (why && why->is_here)  // else another process tells of it
      act(self->fail(membership_time(),
                     trouble_of(*why, self->current().number)));
    is_at_rest = true;
    if (self->stage() == membership::member_stage::freezing)
      stop();
    for (bool is_told = why.has_value();; is_told = false) {
      if (!is_told)
        fail_epoch();
      const auto of = await_epoch(lock);
      if (!of)
        return {};
      lock.unlock();
      auto job = join(*of);
      lock.lock();
      act(self->loaded(membership_time(), of->number));
      if (job && self->stage() == membership::member_stage::ready) {
        is_at_rest = false;
        links_of_epoch = job;
        return {std::move(job), hosting_of(*of), of->number};
      }
      lock.unlock();
      if (const auto left = std::move(job))
        left->leave();
      lock.lock();
    }
  }

  /// Meets the members of an epoch, unless there is another one meanwhile.
  std::shared_ptr<mesh> join(const membership::epoch& of) {
    auto joining = options.joining;
    joining.place = place_in(joining.place, of, own, job, is_local);
    joining.stopped = [this, epoch = of.number] {
      const std::scoped_lock lock(mutex);
      return gives_up(epoch);
    };
    if (!is_local)
      joining.exchange = exchange_of(of.number);
    try {
      return join_job(joining);
    } catch (const error& reason) {
      if (reason.code() != error_code::transport
          && reason.code() != error_code::interrupted)
        throw;
      return nullptr;
    }
  }

  /// With the lock: another epoch is to begin, or has begun, or none.
  bool gives_up(std::int64_t epoch) const {
    return refusal || job_stopped || is_frozen() || is_stopped()
           || self->current().number != epoch;
  }

  /// The authority passes on where the epoch's processes meet.
  address_exchange exchange_of(std::int64_t epoch) {
    return {to_text(link.where()),
            [this, epoch](const std::string& where) {
              const std::scoped_lock lock(mutex);
              own_meeting = {epoch, where};
              link.send(own_meeting);
            },
            [this, epoch] { return await_meeting(epoch); }};
  }
  std::string await_meeting(std::int64_t epoch) {
    const auto until =
      std::chrono::steady_clock::now() + options.joining.patience;
    std::unique_lock lock(mutex);
    while (meeting.epoch != epoch) {
      if (gives_up(epoch))
        fail_stopped();
      if (std::chrono::steady_clock::now() >= until)
        fail(error_code::transport,
             "process 0 of epoch {} did not tell where the processes meet",
             epoch);
      changed.wait_for(lock, look_every);
    }
    return meeting.where;
  }

  const membership_options options;
  const bool is_local;  // all processes are on this machine
  io_loop loop;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  epoch_meeting meeting, own_meeting;  // the last ones
  std::optional<membership::member> self;
  membership::member_id own = membership::no_member;
  std::string job;  // its name
  bool heals_ops = false;
  bool is_done = false;  // the job, without this process
  std::optional<std::string> refusal, job_stopped;
  std::string early_refusal;  // the last one
  membership_events events;
  std::int64_t event_settings = 0;  // how often they were set
  std::optional<membership::moment> leaves_since;
  /// When an authority elsewhere could last not be asked.
  membership::moment away_until = membership::moment::min();
  bool has_gone = false;  // before it had a part
  bool is_at_rest = true;
  std::weak_ptr<mesh> links_of_epoch;
  std::vector<membership::held_copy> held;
  std::int64_t met = 0;  // the last epoch whose members have met here
  int calls = 0;         // of what a freeze demands; 3: links have ended
  membership::moment asked_at{};
  authority_link link;  // it calls this, so it comes late
  repeated_call looks;  // at the state machine
};

}  // namespace troupe
