#include "troupe/engine/events/event.hpp"

namespace troupe {

const event_source& source_of(const event& event) {
  return std::visit(
    [](const auto& kind) -> const event_source& { return kind.source; }, event);
}

std::int64_t tensors_event::held_bytes() const {
  auto bytes = tensors.size() * sizeof(tensor_record);
  for (const auto& record : tensors) {
    if (record.tensor.defined())
      bytes += record.tensor.nbytes();
    if (record.statistics.histogram)
      bytes += sizeof(log2_histogram);
  }
  return static_cast<std::int64_t>(bytes);
}

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
