#pragma once

#include <algorithm>
#include <chrono>

namespace troupe {

/// How long the peer of a TCP connection has acknowledged nothing of what was
/// sent, from regular samples of TCP_INFO: a cut cable, or a machine that is
/// down. A stopped process's machine still acknowledges; if this process was
/// stopped itself, the time starts again.
class acknowledgements {
 public:
  using clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  struct info {
    unsigned unacknowledged = 0;  // packets in flight
    unsigned probes = 0;  // unanswered, while the peer has no room to receive
    milliseconds last{};  // since the last acknowledgement
  };

  /// Returns 0 if nothing is overdue. Call it about every second.
  milliseconds overdue(const info& seen, clock::time_point now) {
    // Nothing is in flight either if this machine's own cable is cut.
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
