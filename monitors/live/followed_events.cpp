#include "troupe/monitors/live/followed_events.hpp"

#include <optional>

#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

/// The ends of steps tell what is repeated.
subscription with_steps(subscription wants) {
  wants.steps = true;
  return wants;
}

}  // namespace

followed_events::followed_events(followed_job& job, const subscription& wants)
  : job_(job), wants_steps_(wants.steps), sent_(with_steps(wants)) {
  job_.client().watch(sent_);
}

bool followed_events::stream(
  const std::function<bool(const live_message&)>& see) {
  for (;;) {
    std::optional<live_message> last;
    const bool is_done = job_.client().stream([&](const live_message& message) {
      if (message.type != "ended")
        return !is_wanted(message) || see(message);
      last = message;
      return false;
    });
    if (is_done && !last)
      return true;
    if (!job_.follow(last ? &*last : nullptr,
                     [&](live_client& next) { next.watch(sent_); }))
      return false;
    repeated_.repeat();
  }
}

bool followed_events::is_wanted(const live_message& message) {
  if (message.type != "event")
    return true;
  return !repeated_.note(message, 0)
         && (wants_steps_
             || field<std::string>(message.content, "event")
                  != step_event::kind);
}

}  // namespace troupe
