#pragma once

#include <memory>
#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// A monitor of this process that watches another one's run.
class attachment {
 public:
  /// See `attach`.
  attachment(const std::string& endpoint, monitor watcher,
             const std::string& token);
  /// Detaches; `see` is not called any more, and `finish` has been. Waits for
  /// calls of them, and for at most two seconds where it looks for a process.
  ~attachment();
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;

  /// Whether it has ended by itself: the run is over, or there was trouble. Any
  /// thread.
  bool ended() const;
  /// The first error so far, exceptions of the monitor included, or empty.
  std::string trouble() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// Hands the events that `watcher` wants to its `see`, on a thread of this
/// process, until the attachment goes. Tensors themselves don't travel: a
/// monitor that needs handles is `invalid_argument`. What it throws, also
/// `stop_training`, ends the attachment and not the run. The token is that of
/// the endpoint, if it asks for one. Throws `invalid_argument` for an endpoint
/// that is none, or tcp without a token; `transport` where nobody answers, or
/// another version of troupe does.
///
/// In a job that heals, the attachment goes on with the process that leads the
/// job next, which it logs. It waits 30 s for that one, and then ends with
/// trouble. Steps that are trained meanwhile are missing. A step that the job
/// repeats is not seen again if its `step_event` was, or would have been where
/// the monitor wants none; otherwise its events are void and come again.
inline attachment attach(const std::string& endpoint, monitor watcher,
                         const std::string& token = {}) {
  return {endpoint, std::move(watcher), token};
}

}  // namespace troupe
