#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe {

/// A monitor of this process that watches another one's run.
class attachment {
 public:
  /// See `attach`.
  attachment(const std::string& endpoint, monitor watcher,
             const std::string& token);
  /// Detaches; `see` is not called any more, and `finish` has been.
  ~attachment();
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;

  /// Whether it has ended by itself: the run is over, or there was trouble.
  bool ended() const { return ended_; }
  /// The first error so far, exceptions of the monitor included, or empty.
  std::string trouble() const;

 private:
  void run();
  bool take(const live_message& message);
  void note(const std::string& what);

  const monitor watcher_;
  live_client client_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::string trouble_;
  std::thread thread_;  // the last: it uses the others
};

/// Hands the events that `watcher` wants to its `see`, on a thread of this
/// process, until the attachment goes. Tensors themselves don't travel: a
/// monitor that needs handles is `invalid_argument`. What it throws, also
/// `stop_training`, ends the attachment and not the run. Throws as
/// `live_client` does.
inline attachment attach(const std::string& endpoint, monitor watcher,
                         const std::string& token = {}) {
  return {endpoint, std::move(watcher), token};
}

}  // namespace troupe
