#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

namespace troupe::cli {

/// A signal with its origin, from siginfo_t.
struct received_signal {
  int number = 0;
  pid_t sender = 0;  // 0: the kernel (as for Ctrl-C), or outside the container
  bool from_ancestor = false;  // the sender is an ancestor of this process
  std::chrono::steady_clock::time_point at{};
};

enum class signal_action : std::uint8_t {
  ignore,
  save,     // save a checkpoint and go on
  end,      // save and end
  end_now,  // end without saving
};

/// Decides what a process does on a signal. A single request to stop often
/// arrives more than once: systemd and Slurm signal all processes of a job,
/// whose launcher forwards its own signal to them, and timeout(1) signals its
/// child and then its process group. So a further signal ends the process at
/// once only if it comes more than `repeat_after` after the first one and is
/// not the first signal of an ancestor, which forwards what it received.
///
/// SIGUSR1 saves, SIGUSR2 saves and ends; all others end. SIGUSR2 announces an
/// end, so the signal after it counts as a first one. For one thread.
class signal_policy {
 public:
  static constexpr std::chrono::milliseconds repeat_after{1000};

  signal_action action_for(const received_signal& signal);

 private:
  signal_action action_for_end(const received_signal& signal);

  bool noticed_ = false;  // SIGUSR2
  std::optional<std::chrono::steady_clock::time_point> first_;
  std::set<pid_t> senders_;
};

}  // namespace troupe::cli
