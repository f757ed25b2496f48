#pragma once

#include <cstddef>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/draw/timeline.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

struct timeline_files {
  std::string svg{};    // picture of the last step; empty: none
  std::string trace{};  // Chrome/Perfetto trace of the last steps; empty: none
  std::size_t steps = 32;
  /// Marks ops in which a tensor was not finite, at the cost of statistics of
  /// all of them.
  bool anomalies = false;
};

/// Keeps what each rank executed when, and writes it when it finishes:
/// written whole or not at all. Replica d's rank r is row d x ranks + r.
/// Throws `invalid_argument`.
monitor timeline_monitor(const timeline_files& files);

/// A step that was run, in milliseconds from its first op, with its messages
/// as flows, and why ranks waited; ops that take no time are left out. A send
/// lasts until it was handed over, a receive from when the message left the
/// sender's process (or was sent, within a process) until it arrived, a
/// reduction until the result was there; a load is the moment when the first
/// stage got its microbatch.
timeline measured_timeline(const plan& plan, const std::vector<ops_event>& ops);

}  // namespace troupe
