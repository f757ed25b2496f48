#include "troupe/monitors/live/repeated_messages.hpp"

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

bool repeated_messages::note(const live_message& message,
                             std::int64_t monitor) {
  if (message.type == "event")
    return note_event(message.content, monitor);
  if (message.type == "alert")
    return note_finding(alert_of(message.content).source, monitor,
                        json_text(message.content));
  // Metrics measure times, so those of a repeated step may differ.
  return message.type == "metrics"
         && note_finding(metrics_of(message.content).source, monitor,
                         message.type);
}

void repeated_messages::repeat() {
  for (auto& [which, seen] : seen_)
    seen.before = seen.now;
}

/// Events of a step are void until it has ended.
bool repeated_messages::note_event(const nlohmann::json& content,
                                   std::int64_t monitor) {
  const auto kind = field<std::string>(content, "event");
  if (kind == epoch_event::kind || kind == dropped_event::kind)
    return false;
  const auto what = event_of(content);
  const auto& source = source_of(what);
  auto& seen = seen_[{monitor, source.phase}];
  if (source.step <= seen.before.step)
    return true;
  if (kind == step_event::kind)
    seen.now.step = source.step;
  return false;
}

/// Those of the last step may not all have come.
bool repeated_messages::note_finding(const event_source& source,
                                     std::int64_t monitor, std::string text) {
  auto& seen = seen_[{monitor, source.phase}];
  if (source.step < seen.before.step
      || (source.step == seen.before.step
          && seen.before.findings.contains(text)))
    return true;
  if (source.step > seen.now.step)
    seen.now = {source.step};
  if (source.step == seen.now.step)
    seen.now.findings.insert(std::move(text));
  return false;
}

}  // namespace troupe
