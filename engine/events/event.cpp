#include "troupe/engine/events/event.hpp"

#include <fnmatch.h>

namespace troupe {

const event_source& source_of(const event& event) {
  return std::visit(
    [](const auto& kind) -> const event_source& { return kind.source; }, event);
}

bool matches_glob(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void merge(std::vector<named_value>& into, const named_value& value) {
  for (auto& known : into) {
    if (known.name != value.name)
      continue;
    const auto count = known.count + value.count;
    known.value =
      (known.value * known.count + value.value * value.count) / count;
    known.count = count;
    return;
  }
  into.push_back(value);
}

bool subscription::covers(const event& event) const {
  if (std::holds_alternative<slow_load_event>(event)
      || std::holds_alternative<failure_event>(event))
    return warnings;
  if (every > 1 && source_of(event).step % every != 0)
    return false;
  if (std::holds_alternative<ops_event>(event))
    return ops;
  if (const auto* tensor = std::get_if<tensor_event>(&event))
    return tensors && matches_glob(names, tensor->name);
  return steps;
}

}  // namespace troupe
