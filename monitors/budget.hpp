#pragma once

#include <cstdint>
#include <functional>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct budget_options {
  double share = 0.02;          // of the step time of all ranks
  std::int64_t longest = 1000;  // the fewest samples: every so many steps
};

/// Keeps what all monitors cost together, in the step's own threads and in
/// theirs, below a share of the time that all steps take, by observing tensors
/// in fewer steps; not for monitors that are exempt, as what they miss is lost,
/// and whose cost counts all the same. Tells when it changes how many, as an
/// alert and as the metrics `budget/share` and `budget/observed_every`. Throws
/// `invalid_argument`.
monitor budget_monitor(const budget_options& options, std::int32_t lanes,
                       std::function<void(std::int64_t)> observe_every,
                       sink_pointer sink);

}  // namespace troupe
