#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/http/http_exchange.hpp"
#include "troupe/monitors/live/limited_log.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// The receivers of what a monitor reports: the client that attached it, if it
/// streams to one, and the job's log.
struct monitor_client {
  http_exchange_pointer stream;  // null: the monitor is kept in the job
  std::shared_ptr<limited_log> log;
  /// Whether another process goes on with the job; may be empty: none does.
  std::function<bool()> goes_on = {};
  /// Why the run has failed; an empty text: it has not. May be empty.
  std::function<std::string()> failure = {};
};

/// A monitor that streams to its client the events that the client asked for;
/// what the client is too slow for is dropped to whole steps, and a
/// dropped_event tells.
monitor event_stream(const monitor_client& to, const subscription& wants);

/// Set once a monitor has ended, of itself or as the run gave it up.
using ended_flag = std::shared_ptr<std::atomic<bool>>;

/// The monitor, which also tells its client when and why it ended; unless it
/// `may_stop` the run, it only ends itself where it wants to.
monitor client_monitor(const monitor_client& to, monitor what, ended_flag ended,
                       bool may_stop);

/// The sink and print function of a monitor: findings and prints go to its
/// client; alerts and prints of one that is kept go to the log, with this
/// `name`.
sink_pointer client_sink(const monitor_client& to);
std::function<void(const std::string&)> client_print(const monitor_client& to,
                                                     const std::string& name);

}  // namespace troupe
