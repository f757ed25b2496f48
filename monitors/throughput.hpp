#pragma once

#include <cstdint>
#include <memory>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct throughput_options {
  std::int64_t interval = 1;    // steps
  std::int64_t parameters = 0;  // of the model; 0: no MFU
  /// Floating point operations a second that one rank's device can do at
  /// most; 0: no MFU.
  double peak_flops = 0;
  /// A rank whose ops of a kind take so many times the median of all ranks' is
  /// reported as a straggler.
  double straggler = 1.5;
};

/// Metrics `throughput/{tokens_per_second|mfu|memory_mib|bubble|plan_bubble|
/// observe_share}` and `throughput/rank{r}/{busy_seconds|received_mib|
/// message_wait_seconds|memory_mib}`; memory is that of the rank's process.
/// MFU counts 6 operations a parameter and token (Chowdhery et al., PaLM,
/// without attention).
///
/// Alerts name stragglers: ranks whose forwards, or whose backwards of a kind,
/// take longer than `straggler` times the median rank's, in three steps in a
/// row. A rank that is told of is known for it, and told of again only if it
/// gets slower by that factor once more: a stage that costs more, such as the
/// head's, can't be told from a slow device, and is an alert once. Throws
/// `invalid_argument`.
monitor throughput_monitor(std::shared_ptr<const plan> of,
                           const throughput_options& options,
                           sink_pointer sink);

}  // namespace troupe
