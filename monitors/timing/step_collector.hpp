#pragma once

#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// Gathers what the ranks executed until the step's summary comes, which is
/// always its last event. What was gathered of a step whose rest was dropped
/// is thrown away.
class step_collector {
 public:
  /// The finished step's ops; null until its summary came.
  const std::vector<ops_event>* add(const event& what);

 private:
  std::vector<ops_event> gathering_;
  std::vector<ops_event> finished_;
};

}  // namespace troupe
