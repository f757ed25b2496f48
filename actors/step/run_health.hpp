#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/progress_board.hpp"
#include "troupe/actors/step/run_end.hpp"

namespace troupe {

struct monitor_health {
  std::string name;
  std::string trouble{};     // why it sees nothing further; empty: it works
  std::size_t waiting = 0;   // events
  std::int64_t dropped = 0;  // events
};

/// A snapshot of a run's actors.
struct run_health {
  bool in_step = false;   // of training or evaluation
  std::string failure{};  // why the run can't go on
  bool interrupted = false;
  std::optional<run_end> end{};      // why the last step was the last one
  std::vector<rank_health> ranks{};  // by data rank, then rank
  std::vector<monitor_health> monitors{};
};

}  // namespace troupe
