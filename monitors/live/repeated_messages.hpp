#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe {

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

}  // namespace troupe
