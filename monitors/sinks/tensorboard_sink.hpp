#pragma once

#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Writes scalars and histograms to an event file of its own,
/// `events.out.tfevents.TIME.HOST.PID.N`, in a folder that it makes where it
/// is missing; `tensorboard --logdir` of that folder or one above shows them.
/// Alerts are left out. See tensorboard_event.hpp. Throws `io`.
sink_pointer tensorboard_sink(const std::string& folder);

}  // namespace troupe
