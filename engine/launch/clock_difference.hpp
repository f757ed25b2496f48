#pragma once

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"

namespace troupe {

/// Offset from this process's clock to the leader's, measured by asking for the
/// time: of several answers the one with the shortest trip is best (NTP).
class clock_difference {
 public:
  static clock_question question() { return {now_ns()}; }

  void learn(const clock_answer& answer) {
    const auto trip = now_ns() - answer.asked;
    if (answers_ == 0 || trip < shortest_trip_) {
      shortest_trip_ = trip;
      offset_ = answer.now - (answer.asked + trip / 2);
    }
    ++answers_;
  }
  bool is_known() const { return answers_ >= enough; }
  std::int64_t offset() const { return offset_; }

 private:
  static constexpr int enough = 8;

  int answers_ = 0;
  std::int64_t shortest_trip_ = 0;  // ns
  std::int64_t offset_ = 0;
};

}  // namespace troupe
