#pragma once

#include <cstdint>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct throughput_options {
  std::int64_t every = 1;       // steps
  std::int64_t parameters = 0;  // of the model; 0: no MFU
  /// Floating point operations a second that one rank's device can do at
  /// most; 0: no MFU.
  double peak_flops = 0;
  /// A rank whose ops of a kind take so many times what they take on the other
  /// ranks is reported as a straggler.
  double straggler = 1.25;
};

/// Metrics `throughput/{tokens_per_second|mfu|memory_mib|bubble|plan_bubble|
/// observe_share}` and `throughput/rank{r}/{busy_seconds|received_mib|
/// message_wait_seconds|memory_mib}`; memory is that of the rank's process.
/// MFU counts 6 operations a parameter and token (Chowdhery et al., PaLM,
/// without attention), and 2 where there are forwards alone.
///
/// Alerts name stragglers: ranks whose forwards, or whose backwards of a kind,
/// take longer than `straggler` times the median of the other ranks', in 8 of
/// the last 10 steps, and by more than twice the noise of the last 64. A rank's
/// median op in a step counts. A reported rank is reported again only if it
/// gets slower by that factor once more, or has been as fast as the others in
/// 52 of 64 steps: a more costly stage, such as the head's, can't be told from
/// a slow device, and is reported once. Throws `invalid_argument`.
monitor throughput_monitor(const throughput_options& options,
                           sink_pointer sink);

}  // namespace troupe
