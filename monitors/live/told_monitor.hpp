#pragma once

#include <atomic>
#include <memory>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/live/outbox.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Streams the events that a client asked for to it; what it is too slow for
/// is dropped to whole steps, and a dropped_event tells.
monitor event_stream(std::int64_t id, const subscription& wants,
                     outbox_pointer outbox);

/// Set once a monitor has ended, of itself or as the run gave it up.
using ended_flag = std::shared_ptr<std::atomic<bool>>;

/// The monitor itself, but the client is told when and why it ended.
monitor told_monitor(std::int64_t id, monitor what, outbox_pointer outbox,
                     ended_flag ended);

/// Sends the findings and prints of monitor `id` to the client. Once the client
/// has left, alerts and prints go to the log if `keep`.
sink_pointer told_sink(std::int64_t id, outbox_pointer outbox, bool keep);
std::function<void(const std::string&)> told_print(std::int64_t id,
                                                   outbox_pointer outbox,
                                                   bool keep);

}  // namespace troupe
