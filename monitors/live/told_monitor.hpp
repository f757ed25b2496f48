#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/live/limited_log.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Messages to one client: bounded, so that a slow client costs no more memory
/// than that. Thread-safe; callers never wait for the client.
class outbox {
 public:
  /// `wake` is called when there is something to send; it must not wait, nor
  /// call the outbox.
  outbox(std::size_t limit, std::function<void()> wake)
    : limit_(limit), wake_(std::move(wake)) {}

  /// Frames that belong together: all of them or, for lack of room, none.
  bool offer(const std::vector<std::string>& frames) {
    std::size_t bytes = 0;
    for (const auto& frame : frames)
      bytes += frame.size();
    const std::scoped_lock lock(mutex_);
    if (!wake_ || waiting_.size() + leaving_ + bytes > limit_)
      return false;
    for (const auto& frame : frames)
      waiting_ += frame;
    wake_();
    return true;
  }
  /// A frame that is never dropped; the caller bounds how many there are.
  void put(const std::string& frame) {
    const std::scoped_lock lock(mutex_);
    if (!wake_)
      return;
    waiting_ += frame;
    wake_();
  }
  /// Whether as much waits as may: time to ask for no more.
  bool is_full() const {
    const std::scoped_lock lock(mutex_);
    return waiting_.size() + leaving_ >= limit_;
  }
  /// Stops taking messages and waking the sender.
  void close() {
    const std::scoped_lock lock(mutex_);
    wake_ = nullptr;
    waiting_.clear();
    waiting_.shrink_to_fit();
  }
  bool is_open() const {
    const std::scoped_lock lock(mutex_);
    return wake_ != nullptr;
  }

  /// Everything that waits; it counts until it was `sent`.
  std::string take() {
    const std::scoped_lock lock(mutex_);
    leaving_ = waiting_.size();
    return std::exchange(waiting_, {});
  }
  void sent() {
    const std::scoped_lock lock(mutex_);
    leaving_ = 0;
  }

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::string waiting_;
  std::size_t leaving_ = 0;  // bytes taken and not sent yet
};
using outbox_pointer = std::shared_ptr<outbox>;

/// Whom a monitor tells: the client that attached it, by the id it got, and the
/// job's log.
struct monitor_client {
  std::int64_t id = 0;
  outbox_pointer outbox;
  std::shared_ptr<limited_log> log;
};

/// Streams the events that a client asked for to it; what it is too slow for
/// is dropped to whole steps, and a dropped_event tells.
monitor event_stream(const monitor_client& to, const subscription& wants);

/// Set once a monitor has ended, of itself or as the run gave it up.
using ended_flag = std::shared_ptr<std::atomic<bool>>;

/// The monitor itself, but the client is told when and why it ended, and unless
/// it `may_stop` the run, it only ends itself where it wants to.
monitor told_monitor(const monitor_client& to, monitor what, ended_flag ended,
                     bool may_stop);

/// Sends a monitor's findings and prints to the client. Once the client has
/// left, alerts and prints go to the log if `keep`.
sink_pointer told_sink(const monitor_client& to, bool keep);
std::function<void(const std::string&)> told_print(const monitor_client& to,
                                                   bool keep);

}  // namespace troupe
