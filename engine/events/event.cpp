#include "troupe/engine/events/event.hpp"

namespace troupe {

std::string source_text(const event_source& source) {
  auto text = fmt::format("step {}", source.step);
  if (source.data_rank > 0)
    text += fmt::format(" replica {}", source.data_rank);
  if (source.rank >= 0)
    text += fmt::format(" rank {}", source.rank);
  if (source.stage >= 0)
    text += fmt::format(" stage {}", source.stage);
  if (source.microbatch >= 0)
    text += fmt::format(" microbatch {}", source.microbatch);
  return text;
}

std::string tensors_event::text() const {
  std::string text;
  for (const auto& each : tensors) {
    const auto& s = each.statistics;
    text += fmt::format("{} {}: {} max |x| {:.4g}, min |x| {:.4g}, mean {:.4g}",
                        source_text(source), each.owner->name, part_text(each),
                        s.max_abs, s.min_abs, s.mean);
    text += s.nans + s.infs > 0
              ? fmt::format(", {} nan, {} inf\n", s.nans, s.infs)
              : "\n";
  }
  return text;
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
  for (auto& entry : target) {
    if (entry.name != value.name)
      continue;
    const auto count = entry.count + value.count;
    if (count > 0)
      entry.value =
        (entry.value * entry.count + value.value * value.count) / count;
    entry.count = count;
    return;
  }
  target.push_back(value);
}

}  // namespace troupe
