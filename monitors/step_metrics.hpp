#pragma once

#include <memory>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Each step's outcome as metrics: `train/{loss|grad_norm|lr|tokens_per_second|
/// bubble|memory_mib}`, further losses and the model's own metrics under
/// `train/`, those of a validation under `validation/`; a step that generates
/// has `inference/tokens_per_second`.
monitor step_metrics_monitor(sink_pointer sink);

}  // namespace troupe
