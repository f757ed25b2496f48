#pragma once

#include <algorithm>
#include <chrono>

namespace troupe {

/// How long the other machine of a TCP connection has left unanswered what was
/// sent to it, as TCP_INFO tells it now and then: a cut cable, or a machine
/// that is down. Where a process is only stopped, its machine still answers;
/// and one that was stopped itself has to ask anew.
class acknowledgements {
 public:
  using clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  struct info {
    unsigned unacknowledged = 0;  // packets on their way
    unsigned probes = 0;  // of a side that takes no more, without an answer
    milliseconds last{};  // since anything was acknowledged
  };

  /// 0: nothing is overdue. To be asked every second or so.
  milliseconds overdue(const info& seen, clock::time_point now) {
    // Nothing is on its way either if this machine's own cable is cut.
    constexpr unsigned unanswered = 3;
    constexpr std::chrono::seconds longest_pause{5};
    const bool waits = seen.unacknowledged > 0 || seen.probes >= unanswered;
    if (!waits || now - asked_ > longest_pause)
      since_ = now;
    asked_ = now;
    return std::min(std::chrono::duration_cast<milliseconds>(now - since_),
                    seen.last);
  }

 private:
  clock::time_point asked_, since_;
};

}  // namespace troupe
