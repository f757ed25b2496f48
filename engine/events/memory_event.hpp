#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// Memory at the end of a step's last op on a rank. Values of a process are
/// equal for all of its ranks.
struct memory_event {
  static constexpr auto kind = "memory";

  event_source source;
  std::int64_t resident_bytes = 0;       // physical memory of the process
  std::int64_t peak_resident_bytes = 0;  // since it began
  std::int64_t machine_bytes = 0;        // physical memory of its machine

  bool wanted_by(const subscription& wants) const {
    return wants.memory && wants.covers_step(source.step);
  }
  std::string text() const {
    const auto mib = [](std::int64_t bytes) {
      return static_cast<double>(bytes) / 0x1p20;
    };
    return fmt::format(
      "{}: its process holds {:.0f} MiB, at most {:.0f} MiB; "
      "the machine has {:.0f} MiB\n",
      source_text(source), mib(resident_bytes), mib(peak_resident_bytes),
      mib(machine_bytes));
  }
};
TROUPE_FIELDS(memory_event, source, resident_bytes, peak_resident_bytes,
              machine_bytes)

}  // namespace troupe
