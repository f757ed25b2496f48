#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/http/access.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// A monitor that a client wants.
struct wanted_monitor {
  std::string spec;  // such as `gap:every=10`
  sink_pointer sink;
  std::function<void(const std::string&)> print;
  access_right right = access_right::watch;  // the client's
  /// A new folder for its files. Throws `missing_right` where the client may
  /// only watch, `invalid_argument` where the job has no folder for such files.
  std::function<std::string()> folder;
};

/// The operations that clients may do on a live job. Called by threads that are
/// none of the job's own: `detach` by any, the others by one at a time. They
/// may throw, and `detach` may wait.
struct job_operations {
  std::function<std::int64_t(monitor)> attach;
  std::function<void(std::int64_t)> detach;
  std::function<monitor(const wanted_monitor&)> make;
  /// Whether another process serves the job once its monitors here have ended;
  /// may be empty: none does. Any thread.
  std::function<bool()> goes_on = {};
  /// Why the run has failed; an empty text: it has not. May be empty. Any
  /// thread.
  std::function<std::string()> failure = {};
  /// Anything that describes the job: an object.
  std::function<nlohmann::json()> info;
  /// The plan's text form; may be empty.
  std::function<std::string()> plan = {};
  /// The process that hosts each rank; may be empty.
  std::function<nlohmann::json()> ranks = {};
  /// Another hosting of the ranks: a request's fields to its answer's; may be
  /// empty.
  std::function<nlohmann::json(const nlohmann::json&)> rehost = {};
  /// Another order of the job's ops: a request's fields to its answer's; may be
  /// empty. By several threads at once.
  std::function<nlohmann::json(const nlohmann::json&)> replan = {};
};

}  // namespace troupe
