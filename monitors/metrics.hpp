#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Appends one JSON object a step to a file, each line whole when written:
/// step, phase, loss (the optimised one), losses, metrics, grad_norm, lr,
/// loss_scale, updated, tokens, seconds, tokens_per_second, bubble and
/// plan_bubble (shares), lane_seconds (first op to last op) and plan_seconds
/// (the same on paper with the same costs), ended_at (monotonic clock),
/// memory_bytes, peak_memory_bytes; of a validation up to `tokens`, of a step
/// that generates those that are not of training; slow loads and failures as
/// objects of their own. A run that has resumed from step `resumed` keeps the
/// lines up to that step; 0: none. Then the outcomes of `latest` that have no
/// line there get one, without what is measured of ops. Throws `io` if the file
/// can't be made; a later failure (a full disk) is reported when the monitor
/// finishes.
monitor metrics_monitor(const std::string& path, std::int64_t resumed = 0,
                        const std::vector<step_event>& latest = {});

/// Each step's outcome as metrics: `train/{loss|grad_norm|lr|tokens_per_second|
/// bubble|memory_mib}`, further losses and the model's own metrics under
/// `train/`, those of a validation under `validation/`; a step that generates
/// has `inference/tokens_per_second`.
monitor step_metrics_monitor(sink_pointer sink);

/// Writes the order in which each rank started its ops, a line a rank and
/// training step (engine/plan/check/order_log.hpp): complete after every step.
/// `resumed` as in `metrics_monitor`. Throws `io`.
monitor order_log_monitor(const std::string& path, std::int64_t resumed = 0);

}  // namespace troupe
