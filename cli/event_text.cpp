#include "troupe/cli/event_text.hpp"

#include <fmt/format.h>

#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

std::string place(const event_source& source) {
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

double mib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string lines_of(const ops_event& what) {
  std::int64_t busy = 0;
  for (const auto& op : what.ops)
    busy += op.end - op.begin;
  return fmt::format("{}: {} ops in {:.3f} ms\n", place(what.source),
                     what.ops.size(), static_cast<double>(busy) * 1e-6);
}

std::string lines_of(const messages_event& what) {
  std::int64_t bytes = 0, wait = 0;
  for (const auto& each : what.messages) {
    bytes += each.bytes;
    wait += each.wait;
  }
  return fmt::format("{}: received {} messages, {:.3f} MiB; waited {:.3f} ms\n",
                     place(what.source), what.messages.size(), mib(bytes),
                     static_cast<double>(wait) * 1e-6);
}

std::string lines_of(const memory_event& what) {
  return fmt::format(
    "{}: its process holds {:.0f} MiB, at most {:.0f} MiB; "
    "the machine has {:.0f} MiB\n",
    place(what.source), mib(what.resident_bytes), mib(what.peak_resident_bytes),
    mib(what.machine_bytes));
}

std::string lines_of(const tensors_event& what) {
  std::string text;
  for (const auto& each : what.tensors) {
    const auto& s = each.statistics;
    text += fmt::format("{} {}: {} max |x| {:.4g}, min |x| {:.4g}, mean {:.4g}",
                        place(what.source), each.owner->name, part_text(each),
                        s.max_abs, s.min_abs, s.mean);
    text += s.nans + s.infs > 0
              ? fmt::format(", {} nan, {} inf\n", s.nans, s.infs)
              : "\n";
  }
  return text;
}

std::string lines_of(const slow_load_event& what) {
  return fmt::format("{}: loading took {:.3f} s\n", place(what.source),
                     what.seconds);
}

std::string lines_of(const failure_event& what) {
  return fmt::format("{}: {} failed: {}\n", place(what.source), what.op,
                     what.reason);
}

std::string lines_of(const dropped_event& what) {
  return fmt::format("{}: too slow here, {} events were dropped\n",
                     place(what.source), what.count);
}

}  // namespace

std::string text_of(const event& what, std::int64_t steps) {
  if (const auto* step = std::get_if<step_event>(&what))
    return progress_line(*step, steps, nullptr) + "\n";
  return std::visit(
    [](const auto& kind) -> std::string {
      if constexpr (requires { lines_of(kind); })
        return lines_of(kind);
      else
        return {};
    },
    what);
}

}  // namespace troupe::cli
