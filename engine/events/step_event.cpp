#include "troupe/engine/events/step_event.hpp"

namespace troupe {

void merge(std::vector<named_value>& target, const named_value& value) {
  for (auto& known : target) {
    if (known.name != value.name)
      continue;
    const auto count = known.count + value.count;
    if (count > 0)
      known.value =
        (known.value * known.count + value.value * value.count) / count;
    known.count = count;
    return;
  }
  target.push_back(value);
}

}  // namespace troupe
