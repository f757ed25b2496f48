#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// A message of the plan as seen by the receiving rank. Times are host
/// nanoseconds of `now_ns`; `left` and `arrived` as in op_record.
struct message_record {
  std::int32_t message = -1;  // index into plan::messages
  std::int64_t bytes = 0;     // of its tensors
  std::int64_t sent = 0;
  std::int64_t left = 0;
  std::int64_t arrived = 0;
  std::int64_t taken = 0;  // when the op that consumes it began
  std::int64_t wait = 0;   // how long the rank was idle for it, in ns
};
TROUPE_FIELDS(message_record, message, bytes, sent, left, arrived, taken, wait)
template <>
inline constexpr bool travels_as_row<message_record> = true;

/// All messages that one rank received in a step, in the order of its ops.
struct messages_event {
  static constexpr auto kind = "messages";

  event_source source;
  std::vector<message_record> messages;

  static constexpr auto list = &messages_event::messages;

  bool wanted_by(const subscription& wants) const {
    return wants.messages && wants.covers_step(source.step);
  }
  std::string text() const {
    std::int64_t bytes = 0, wait = 0;
    for (const auto& each : messages) {
      bytes += each.bytes;
      wait += each.wait;
    }
    return fmt::format(
      "{}: received {} messages, {:.3f} MiB; waited {:.3f} ms\n",
      source_text(source), messages.size(), static_cast<double>(bytes) / 0x1p20,
      static_cast<double>(wait) * 1e-6);
  }
};
TROUPE_FIELDS(messages_event, source, messages)

}  // namespace troupe
