#include "troupe/engine/events/tensors_event.hpp"

#include <fmt/format.h>

namespace troupe {

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

}  // namespace troupe
