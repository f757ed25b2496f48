#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe {

/// Members whose connections were lost. Each may come again on another one:
/// between machines, connections break for other reasons than a process's end.
class lost_links {
 public:
  void note(membership::member_id member) {
    since_[member] = membership_time();
  }
  /// It has come again, or has ended.
  void forget(membership::member_id member) { since_.erase(member); }
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
};

}  // namespace troupe
