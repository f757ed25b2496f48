#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe {

/// Members whose connections were lost. Each may come again on another one:
/// between machines, connections break for other reasons than a process's end.
/// And whether one was lost lately, whose launcher may start it again.
class lost_links {
 public:
  void note(membership::member_id member) {
    since_[member] = membership_time();
  }
  /// It has come again, or another one has.
  void forget(membership::member_id member) {
    since_.erase(member);
    last_loss_ = 0;
  }
  /// It has ended, or was given up. `is_loss`: others did not expect it.
  void end(membership::member_id member, bool is_loss) {
    since_.erase(member);
    if (is_loss)
      last_loss_ = membership_time().count();
  }
  /// Whether the last loss is less than so long ago, and nobody has come since.
  /// Any thread.
  bool has_lost_within(std::chrono::milliseconds time) const {
    const auto last = last_loss_.load();
    return last > 0 && membership_time() - membership::moment(last) < time;
  }
  /// Those that should have come again by now.
  std::vector<membership::member_id> overdue() const {
    constexpr std::chrono::milliseconds return_within{300};
    std::vector<membership::member_id> found;
    for (const auto& [member, at] : since_)
      if (at <= membership_time() - return_within)
        found.push_back(member);
    return found;
  }

 private:
  std::map<membership::member_id, membership::moment> since_;
  std::atomic<std::int64_t> last_loss_ = 0;  // 0: none
};

}  // namespace troupe
