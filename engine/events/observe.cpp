#include "troupe/engine/events/observe.hpp"

namespace troupe {

observer*& current_observer() {
  thread_local observer* current = nullptr;
  return current;
}

void report_metric(const std::string& name, double value, double count) {
  if (auto* seen_by = current_observer())
    seen_by->metric(name, value, count);
}

}  // namespace troupe
