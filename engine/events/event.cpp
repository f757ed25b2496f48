#include "troupe/engine/events/event.hpp"

#include <fmt/format.h>

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

std::string ops_event::text() const {
  std::int64_t busy = 0;
  for (const auto& op : ops)
    busy += op.end - op.begin;
  return fmt::format("{}: {} ops in {:.3f} ms\n", source_text(source),
                     ops.size(), static_cast<double>(busy) * 1e-6);
}

std::string messages_event::text() const {
  std::int64_t bytes = 0, wait = 0;
  for (const auto& each : messages) {
    bytes += each.bytes;
    wait += each.wait;
  }
  return fmt::format("{}: received {} messages, {:.3f} MiB; waited {:.3f} ms\n",
                     source_text(source), messages.size(),
                     static_cast<double>(bytes) / 0x1p20,
                     static_cast<double>(wait) * 1e-6);
}

std::string memory_event::text() const {
  const auto mib = [](std::int64_t bytes) {
    return static_cast<double>(bytes) / 0x1p20;
  };
  return fmt::format(
    "{}: its process holds {:.0f} MiB, at most {:.0f} MiB; "
    "it can use {:.0f} MiB\n",
    source_text(source), mib(resident_bytes), mib(peak_resident_bytes),
    mib(usable_bytes));
}

std::string slow_load_event::text() const {
  return fmt::format("{}: loading took {:.3f} s\n", source_text(source),
                     seconds);
}

std::string failure_event::text() const {
  return fmt::format("{}: {} failed: {}\n", source_text(source), op, reason);
}

std::string dropped_event::text() const {
  return fmt::format(
    "{}: {} events were dropped here: the receiver is too slow\n",
    source_text(source), count);
}

std::string epoch_event::text() const {
  return fmt::format(
    "epoch {}: {} process{} met again after {:.3g} s, and {:.3g} MiB of states "
    "moved; the run goes on after step {}\n",
    epoch, processes, processes == 1 ? "" : "es", seconds,
    static_cast<double>(moved_bytes) / (1 << 20), source.step);
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

const event_source& source_of(const event& what) {
  return std::visit(
    [](const auto& held) -> const event_source& { return held.source; }, what);
}

}  // namespace troupe
