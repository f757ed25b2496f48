#pragma once

#include <memory>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

class device_event;

/// The result of one step: its summary and each rank's ops.
struct step_report {
  step_event summary;
  std::vector<ops_event> ops;  // by data rank, then rank; in executed order
  /// For steps of gradients alone: when those of replicas are averaged.
  std::vector<std::shared_ptr<const device_event>> reduced = {};
  /// The leading process has announced another plan or hosting, in time for all
  /// processes to take it up before the next training step.
  bool changes = false;
  /// All processes are to save a checkpoint now.
  bool saves = false;
};

}  // namespace troupe
