#include "troupe/cli/ends_elsewhere.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>

namespace troupe::cli {

ending ends_elsewhere::meaning_of(const ended_process& which,
                                  std::chrono::steady_clock::time_point now) {
  constexpr std::size_t most_tries = 3;
  auto& tries = tries_[which.process];
  auto& is_again = is_again_[which.process];
  while (!tries.empty() && now - tries.front() > std::chrono::minutes(1))
    tries.pop_front();
  const bool ends_well = !which.killed && which.status == 0;
  has_ended_well_ |= ends_well;
  if (ends_well || (has_ended_well_ && is_again && !which.killed))
    return ending::leaves;
  if (!which.killed || which.status == SIGTERM || tries.size() >= most_tries)
    return ending::counts;
  is_again = true;
  tries.push_back(now);
  spdlog::warn(
    "process {} (pid {}) was killed by signal {}, and is started again",
    first_rank_ + which.process, which.pid, which.status);
  return ending::restarts;
}

}  // namespace troupe::cli
