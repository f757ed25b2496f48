#include "troupe/actors/monitoring/monitor_thread.hpp"

#include <c10/core/StorageImpl.h>
#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "troupe/actors/monitoring/warn_of.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/freed_memory.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace troupe {

namespace {

/// Takes out of shared tensors_events what one monitor did not ask for, others'
/// handles among it: what one hoards must not count as another's.
class event_filter {
 public:
  explicit event_filter(subscription wants) : wants_(std::move(wants)) {}

  /// The event itself, or a part of it; null: nothing is left.
  event_pointer pass(const event_pointer& what) {
    const auto* tensors = std::get_if<tensors_event>(what.get());
    if (!tensors)
      return what;
    tensors_event part{tensors->source,     tensors->backward,
                       tensors->samples,    {},
                       tensors->for_exempt, tensors->reading};
    bool stripped = false;
    for (const auto& record : tensors->tensors) {
      if (!wanted(record))
        continue;
      part.tensors.push_back(record);
      if (record.tensor.defined() && !has(wants_.needs, tensor_needs::handle)) {
        part.tensors.back().tensor = at::Tensor{};
        stripped = true;
      }
    }
    if (!stripped && part.tensors.size() == tensors->tensors.size())
      return what;
    return part.tensors.empty()
             ? nullptr
             : std::make_shared<const event>(std::move(part));
  }

 private:
  bool wanted(const tensor_record& record) {
    if (!has(wants_.tensors, record.kind))
      return false;
    const auto [entry, added] = matches_.try_emplace(record.owner->name);
    if (added)
      entry->second = wants_.wants(record.kind, record.owner->name);
    return entry->second;
  }

  subscription wants_;
  /// By name: what comes from other processes has owners of its own.
  std::unordered_map<std::string, bool> matches_;
};

/// The storages that were handed to a monitor, to see what it holds on to.
class lent_storages {
 public:
  void add(const event& what) {
    if (const auto* tensors = std::get_if<tensors_event>(&what))
      for (const auto& record : tensors->tensors)
        if (record.tensor.defined() && record.tensor.has_storage())
          lent_.insert_or_assign(
            record.tensor.storage().unsafeGetStorageImpl(),
            loan{record.tensor.storage().getWeakStorageImpl(),
                 static_cast<std::int64_t>(record.tensor.storage().nbytes())});
  }
  std::int64_t alive_bytes() {
    std::erase_if(lent_,
                  [](const auto& item) { return item.second.what.expired(); });
    std::int64_t bytes = 0;
    for (const auto& [storage, loan] : lent_)
      bytes += loan.bytes;
    return bytes;
  }

 private:
  struct loan {
    c10::weak_intrusive_ptr<c10::StorageImpl> what;
    std::int64_t bytes;
  };
  std::unordered_map<const c10::StorageImpl*, loan> lent_;
};

std::int64_t held_by(const event& what) {
  const auto* tensors = std::get_if<tensors_event>(&what);
  return tensors ? tensors->held_bytes() : 0;
}

constexpr auto much_to_keep = std::int64_t{64} << 20;

std::int64_t processor_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

struct monitor_thread::state {
  state(monitor watcher, std::function<void(run_end)> on_stop,
        std::function<void(std::int64_t)> on_spent)
    : what(std::move(watcher)),
      only_asked_for(what.wants),
      stop(std::move(on_stop)),
      spent(std::move(on_spent)) {}

  monitor what;
  event_filter only_asked_for;
  std::function<void(run_end)> stop;  // empty once it is left behind
  const std::function<void(std::int64_t)> spent;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<event_pointer> waiting;
  std::int64_t waiting_bytes = 0, kept_bytes = 0;
  lent_storages lent;
  std::int64_t dropped = 0, dropped_in_all = 0;
  bool finishing = false;
  bool abandoned = false;
  bool done = false;
  std::string trouble;
  std::int64_t busy_since = 0;  // 0: not in a call of the monitor's
  std::atomic<bool> stopped{false};

  std::string why_stuck() const {
    return fmt::format("a call has not returned for {} s",
                       what.limits.stuck_seconds);
  }
  bool stuck() const {
    return busy_since != 0
           && static_cast<double>(now_ns() - busy_since) * 1e-9
                > what.limits.stuck_seconds;
  }
  void call(std::unique_lock<std::mutex>& lock,
            const std::function<void()>& part);
  void see(const event& next);
  void give_up(const std::string& reason);
  void append(const event_pointer& next);
  void resume_with_next_step(const event_source& source);
  void end_of_step();
};

/// Runs a part of the monitor without the lock; what it throws ends it.
void monitor_thread::state::call(std::unique_lock<std::mutex>& lock,
                                 const std::function<void()>& part) {
  busy_since = now_ns();
  lock.unlock();
  const auto before = processor_ns();
  std::optional<std::string> thrown;
  std::optional<run_end> end;
  try {
    part();
  } catch (const stop_training& reason) {
    thrown = reason.what();
    end = {run_end::kind::failed, reason.what()};
  } catch (const end_training& reason) {
    end = {run_end::kind::success, reason.what()};
  } catch (...) {
    thrown = thrown_text();
  }
  spent(processor_ns() - before);
  lock.lock();
  busy_since = 0;
  if (end && stop) {
    stopped = stopped || thrown;
    stop({end->why, fmt::format("monitor {}: {}", what.name, end->reason)});
  }
  if (thrown && trouble.empty())
    trouble =
      thrown->empty() ? "it threw an exception without a message" : *thrown;
}

/// Shows the monitor an event; called without the lock.
void monitor_thread::state::see(const event& next) {
  what.see(next);
  if (!what.kept_bytes || !std::holds_alternative<step_event>(next))
    return;
  const auto bytes = what.kept_bytes();
  const std::scoped_lock lock(mutex);
  kept_bytes = bytes;
}

/// Shows the monitor nothing further, for a reason that is not its own
/// exception.
void monitor_thread::state::give_up(const std::string& reason) {
  trouble = reason;
  waiting.clear();
  waiting_bytes = 0;
  changed.notify_all();
  if (!what.given_up)
    return;
  try {
    what.given_up(reason);
  } catch (...) {
    warn_of(what, ": it threw while being abandoned: {}", thrown_text());
  }
}

void monitor_thread::state::append(const event_pointer& next) {
  waiting.push_back(next);
  waiting_bytes += held_by(*next);
  changed.notify_one();
}

void monitor_thread::state::resume_with_next_step(const event_source& source) {
  if (dropped == 0 || waiting.size() > what.limits.waiting_events / 2)
    return;
  append(std::make_shared<const event>(dropped_event{source, dropped}));
  dropped_in_all += dropped;
  dropped = 0;
}

void monitor_thread::state::end_of_step() {
  const auto held = std::max(waiting_bytes, lent.alive_bytes()) + kept_bytes;
  if (held > what.limits.held_bytes && trouble.empty())
    give_up(
      fmt::format("it holds events and tensors of {} MiB; its limit is {} MiB",
                  held >> 20, what.limits.held_bytes >> 20));
}

monitor_thread::monitor_thread(monitor what, std::function<void(run_end)> stop,
                               std::function<void(std::int64_t)> spent) try
  : state_(std::make_shared<state>(std::move(what), std::move(stop),
                                   std::move(spent))),
    thread_([shared = state_] { run_safely(shared); }) {
} catch (const std::system_error& reason) {
  fail(error_code::device,
       "can't start the thread of a monitor: {}; raise the limit of processes "
       "(ulimit -u, the cgroup's pids.max) or of memory (ulimit -v)",
       reason.what());
}

monitor_thread::~monitor_thread() {
  leave();
}

void monitor_thread::leave() {
  if (!thread_.joinable())
    return;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->waiting.clear();
    state_->abandoned = true;
  }
  wait_for_end();
}

const std::string& monitor_thread::name() const {
  return state_->what.name;
}

bool monitor_thread::runs_this() const {
  return id_ == std::this_thread::get_id();
}

const subscription& monitor_thread::wants() const {
  return state_->what.wants;
}

void monitor_thread::warn_that_it_ends(const std::string& reason) const {
  warn_of(state_->what, " receives no further events: {}", reason);
}

monitor_health monitor_thread::health() const {
  const auto& s = *state_;
  const std::scoped_lock lock(state_->mutex);
  return {s.what.name, s.stuck() ? s.why_stuck() : s.trouble, s.waiting.size(),
          s.dropped + s.dropped_in_all};
}

bool monitor_thread::stopped() const {
  return state_->stopped;
}

void monitor_thread::run(const std::shared_ptr<state>& shared) {
  std::unique_lock lock(shared->mutex);
  while (shared->trouble.empty()) {
    shared->changed.wait(lock, [&] {
      return shared->finishing || !shared->waiting.empty()
             || !shared->trouble.empty();
    });
    if (shared->waiting.empty())
      break;
    const auto next = std::move(shared->waiting.front());
    shared->waiting.pop_front();
    shared->waiting_bytes -= held_by(*next);
    shared->call(lock, [&] { shared->see(*next); });
  }
  if (shared->trouble.empty() && shared->what.finish && !shared->abandoned)
    shared->call(lock, shared->what.finish);
  shared->waiting.clear();
  const bool kept_much = shared->kept_bytes > much_to_keep;
  lock.unlock();
  shared->what.see = nullptr;  // and what that held
  shared->what.finish = nullptr;
  shared->what.kept_bytes = nullptr;
  // Many small pieces, which the allocator would keep otherwise.
  if (kept_much)
    return_freed_memory();
  lock.lock();
  shared->done = true;
  shared->changed.notify_all();
}

/// The code around a monitor's calls can run out of memory, too.
void monitor_thread::run_safely(const std::shared_ptr<state>& shared) {
  try {
    run(shared);
  } catch (...) {
    const std::scoped_lock lock(shared->mutex);
    shared->trouble = thrown_text();
    shared->busy_since = 0;
    shared->done = true;
    shared->changed.notify_all();
  }
}

std::string monitor_thread::push(const event_pointer& what) {
  auto& s = *state_;
  const std::scoped_lock lock(s.mutex);
  const auto* step = std::get_if<step_event>(what.get());
  if (step)
    s.end_of_step();
  if (s.stuck() && s.trouble.empty())
    s.give_up(s.why_stuck());
  if (!s.trouble.empty())
    return s.trouble;
  const auto part =
    s.what.wants.covers(*what) ? s.only_asked_for.pass(what) : nullptr;
  if (s.dropped > 0 || s.waiting.size() >= s.what.limits.waiting_events) {
    s.dropped += part != nullptr;
    if (step)
      s.resume_with_next_step(step->source);
    return {};
  }
  if (!part)
    return {};
  s.lent.add(*part);
  s.append(part);
  if (s.waiting_bytes > s.what.limits.held_bytes)
    s.end_of_step();
  return s.trouble;
}

void monitor_thread::wait_for_end() {
  auto& s = *state_;
  std::unique_lock lock(s.mutex);
  s.finishing = true;
  s.changed.notify_all();
  while (!s.done && !s.stuck())
    s.changed.wait_for(lock, std::chrono::milliseconds(100));
  if (!s.done) {
    s.stop = nullptr;  // what it reaches may be gone when it returns
    s.trouble = s.why_stuck() + "; its thread is abandoned";
    if (thread_.joinable())
      thread_.detach();
  }
  lock.unlock();
  if (thread_.joinable())
    thread_.join();
}

std::string monitor_thread::finish() {
  wait_for_end();
  const auto& s = *state_;
  const std::scoped_lock lock(state_->mutex);
  if (const auto lost = s.dropped + s.dropped_in_all; lost > 0)
    warn_of(s.what, " was too slow: {} events were dropped", lost);
  return s.trouble;
}

}  // namespace troupe
