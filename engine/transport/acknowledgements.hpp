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

  struct sample {
    unsigned unacknowledged = 0;  // packets in flight
    unsigned probes = 0;  // unanswered, while the peer has no room to receive
    milliseconds since_last{};  // since the last acknowledgement
  };

  /// Returns 0 if nothing is overdue. Call it about every second.
  milliseconds overdue(const sample& state, clock::time_point now) {
    // If this machine's own cable is cut, nothing is in flight, but probes are
    // unanswered.
    constexpr unsigned most_probes = 2;
    constexpr std::chrono::seconds longest_pause{5};
    const bool waits = state.unacknowledged > 0 || state.probes > most_probes;
    if (!waits || now - last_call_ > longest_pause)
      since_ = now;
    last_call_ = now;
    return std::min(std::chrono::duration_cast<milliseconds>(now - since_),
                    state.since_last);
  }

 private:
  clock::time_point last_call_;
  clock::time_point since_;  // when the peer began to owe an acknowledgement
};

}  // namespace troupe
