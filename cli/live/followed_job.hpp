#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "troupe/cli/live/live_options.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe::cli {

/// A client of a live job. If the job heals, the client finds the process that
/// leads it once the one before is gone: at the same endpoint. One thread uses
/// it; `interrupt` from any.
class followed_job {
 public:
  /// Waits so many seconds for the next process that leads. Throws as
  /// `live_options::connect` does.
  explicit followed_job(const live_options& job, double patience = 30);

  live_client& client() { return *client_; }
  /// Call when a stream has ended, with its last message; null: the connection
  /// was lost. Connects to the process that leads the job now, and logs which
  /// one it is. False: the job is over, or does not heal, or nobody has
  /// answered in time. Throws `interrupted`.
  bool follow(const live_message* ended);
  /// Ends what waits, as `live_client::interrupt` does.
  void interrupt();

 private:
  bool reconnect(bool goes_on);
  void require_not_interrupted() const;

  const std::string token_, endpoint_;
  const double patience_;
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<live_client> client_;
  bool is_interrupted_ = false;
};

/// Tells what a job that heals sends again, as it repeats steps: what was sent
/// of a step whose end the client has seen, and findings that it has seen.
class repeated_messages {
 public:
  /// Notes the message, of a monitor by this id. Returns whether it was there
  /// before `repeat`.
  bool note(const live_message& message, std::int64_t monitor);
  /// The client has connected again, and steps may come again.
  void repeat();

 private:
  struct step_findings {
    std::int64_t step = -1;
    std::set<std::string> findings{};
  };
  /// The last step, now and when the client connected again last.
  struct seen_steps {
    step_findings now{}, before{};
  };

  bool note_event(const nlohmann::json& content, std::int64_t monitor);
  bool note_finding(const event_source& source, std::int64_t monitor,
                    std::string text);

  std::map<std::pair<std::int64_t, phase>, seen_steps> seen_;  // by monitor
};

}  // namespace troupe::cli
