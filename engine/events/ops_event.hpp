#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

struct plan;

/// One executed op of the plan. Times are host nanoseconds of `now_ns`. `ready`
/// is when its last input was sent; an op could have started at max(ready, end
/// of the rank's op before it). An input from another process left it at
/// `left`, when its channel had a credit, and arrived at `arrived`; within a
/// process both are 0. On a device `begin` and `end` are its run time there, by
/// the host's clock, and the host launched it from `host_begin` to `host_end`;
/// on a CPU those are 0.
struct op_record {
  std::uint32_t op = 0;        // index into plan::ops
  std::uint32_t sequence = 0;  // executed order on its rank, from 0
  std::int64_t ready = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t left = 0;
  std::int64_t arrived = 0;
  std::int64_t host_begin = 0;
  std::int64_t host_end = 0;
};
TROUPE_FIELDS(op_record, op, sequence, ready, begin, end, left, arrived,
              host_begin, host_end)
template <>
inline constexpr bool travels_as_row<op_record> = true;

/// All ops that one rank executed in a step, in executed order.
struct ops_event {
  static constexpr auto kind = "ops";

  event_source source;
  std::vector<op_record> ops;
  /// Whose ops these are; null in other processes, as clients are.
  std::shared_ptr<const troupe::plan> plan = {};

  static constexpr auto list = &ops_event::ops;

  bool wanted_by(const subscription& wants) const {
    return wants.ops && wants.covers_step(source.step);
  }
  std::string text() const {
    std::int64_t busy = 0;
    for (const auto& op : ops)
      busy += op.end - op.begin;
    return fmt::format("{}: {} ops in {:.3f} ms\n", source_text(source),
                       ops.size(), static_cast<double>(busy) * 1e-6);
  }
};
TROUPE_FIELDS(ops_event, source, ops)

}  // namespace troupe
