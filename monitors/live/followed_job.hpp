#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "troupe/monitors/live/live_client.hpp"

namespace troupe {

/// Throws `op_failed` if the last message of a stream says that the run has
/// failed, and no other process goes on with it.
void require_not_failed(const live_message& ended);

/// A client of a live job. If the job heals, the client finds the process that
/// leads it once the one before is gone: at the same endpoint. One thread uses
/// it; `interrupt` from any.
class followed_job {
 public:
  /// Waits so many seconds for the next process that leads. Throws as
  /// `live_client` does.
  explicit followed_job(const std::string& endpoint,
                        const std::string& token = {}, double patience = 30);

  live_client& client() { return *client_; }
  /// Call when a stream has ended, with its last message; null: the connection
  /// was lost. Connects to the process that leads the job now, begins streams
  /// again by `open`, and logs which process it is. False: the job is over.
  /// Throws as `require_not_failed` does; `transport` if the connection was
  /// lost of a job that does not heal, or by a process that still answers, or
  /// if no other process has answered in time; what `open` throws except
  /// `transport`, which lets it try again; and `interrupted`.
  bool follow(const live_message* ended,
              const std::function<void(live_client& next)>& open);
  /// Every call that waits, now or later, throws `interrupted`, within two
  /// seconds.
  void interrupt();

 private:
  bool await_next(bool goes_on, const std::function<void(live_client&)>& open);
  bool reconnect(bool goes_on, const std::function<void(live_client&)>& open);
  void require_not_interrupted() const;

  const std::string endpoint_, token_;
  const double patience_;
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<live_client> client_;
  bool is_interrupted_ = false;
};

}  // namespace troupe
