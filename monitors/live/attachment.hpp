#pragma once

#include <memory>
#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// A monitor of this process that watches another one's run.
class attachment {
 public:
  struct state;
  explicit attachment(std::unique_ptr<state> begun);
  /// Detaches; `see` is not called any more, and `finish` has been.
  ~attachment();
  attachment(attachment&&) noexcept;

  /// Whether it has ended by itself: the run is over, or there was trouble.
  bool ended() const;
  /// The first error so far, exceptions of the monitor included, or empty.
  std::string trouble() const;

 private:
  std::unique_ptr<state> state_;
};

/// Hands the events that `watcher` wants to its `see`, on a thread of this
/// process, until the attachment goes. Tensors themselves don't travel: a
/// monitor that needs handles is `invalid_argument`. What it throws, also
/// `stop_training`, ends the attachment and not the run. Throws as
/// `live_client` does.
attachment attach(const std::string& endpoint, monitor watcher,
                  const std::string& token = {});

}  // namespace troupe
