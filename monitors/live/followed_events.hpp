#pragma once

#include <functional>

#include "troupe/monitors/live/followed_job.hpp"
#include "troupe/monitors/live/repeated_messages.hpp"

namespace troupe {

/// A job's events, also if another process leads it from some step on. An event
/// of a step whose end was seen does not come again when the step is repeated.
class followed_events {
 public:
  /// Subscribes. The job stays until this goes. Throws as `live_client` does.
  followed_events(followed_job& job, const subscription& wants);

  /// Calls `see` with each message but the last ones of streams until it
  /// returns false (true), or the job has ended (false). Throws as
  /// `live_client::stream` and `followed_job::follow` do.
  bool stream(const std::function<bool(const live_message&)>& see);

 private:
  bool is_wanted(const live_message& message);

  followed_job& job_;
  const bool wants_steps_;
  subscription sent_;
  repeated_messages repeated_;
};

}  // namespace troupe
