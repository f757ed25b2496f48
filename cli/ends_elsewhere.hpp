#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>

#include "troupe/engine/launch/local_launcher.hpp"

namespace troupe::cli {

/// What the ends of a launcher's processes mean in a job that heals, whose
/// authority is elsewhere.
class ends_elsewhere {
 public:
  explicit ends_elsewhere(std::int32_t first_rank) : first_rank_(first_rank) {}

  /// A process that is killed is started again, three times a minute. One that
  /// was started again is no failure if another process here has ended well:
  /// the job may be done, and its authority gone.
  ending meaning_of(const ended_process& which,
                    std::chrono::steady_clock::time_point now =
                      std::chrono::steady_clock::now());

 private:
  using times = std::deque<std::chrono::steady_clock::time_point>;

  std::int32_t first_rank_;
  std::map<std::int32_t, times> tries_;    // of the last minute, by process
  std::map<std::int32_t, bool> is_again_;  // by process
  bool has_ended_well_ = false;
};

}  // namespace troupe::cli
