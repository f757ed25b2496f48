#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct plan;

/// Facts of the watched run that a monitor may need.
struct monitor_context {
  std::shared_ptr<const plan> run_plan{};
  sink_pointer sink{};
  std::int64_t parameters = 0;  // of the whole model
  std::int32_t lanes = 1;       // ranks of all replicas
  /// Observe tensors in every n-th step only.
  std::function<void(std::int64_t)> observe_every = {};
  /// For a monitor that somebody else wants: makes a new folder, in which it
  /// writes, and returns it; may throw. A spec then says `true` in place of a
  /// file's name, and of a folder's nothing. Empty: specs name files.
  std::function<std::string()> folder = {};
  /// Where reports for people are printed; empty: to standard output.
  std::function<void(const std::string&)> print = {};
};

/// Makes a monitor of a text such as `gap:every=10,match=blocks.*`: a name,
/// then settings as key=value. A part without `=` belongs to the value before
/// it, so that lists need no other comma: `match=blocks.*,head`, `trace=0,3`.
/// Throws `invalid_argument` naming the monitor and the setting, with those
/// that there are.
monitor make_monitor(const std::string& spec, const monitor_context& context);

/// The files that a monitor of this text would write; where it names them
/// itself, the folder that they would be in, with a slash at its end. Throws
/// `invalid_argument`.
std::vector<std::string> monitor_outputs(const std::string& spec);

/// The names of all monitors.
std::vector<std::string> monitor_names();

/// A line for each monitor and its settings, for `--help`.
std::string monitor_help();

}  // namespace troupe
