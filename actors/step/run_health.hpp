#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/run_end.hpp"

namespace troupe {

/// `elsewhere`: the rank lives in another process.
enum class rank_state : std::uint8_t { idle, running, waiting, elsewhere };

/// The current activity of a replica's rank.
struct rank_health {
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  rank_state doing = rank_state::idle;
  std::int32_t stage = -1;  // of the op; -1: none
  std::string op{};         // 0F3; empty while it is idle
  std::string waits_for{};  // "the activation of stage 0 (rank 0)"
};

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
