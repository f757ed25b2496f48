#include "troupe/cli/signal_policy.hpp"

#include <signal.h>

#include <utility>

namespace troupe::cli {

signal_action signal_policy::action_for(const received_signal& signal) {
  switch (signal.number) {
    case SIGUSR1:
      return noticed_ || first_ ? signal_action::ignore : signal_action::save;
    case SIGUSR2:
      return std::exchange(noticed_, true) || first_ ? signal_action::ignore
                                                     : signal_action::end;
    default:
      return action_for_end(signal);
  }
}

signal_action signal_policy::action_for_end(const received_signal& signal) {
  const bool forwards =
    senders_.insert(signal.sender).second && signal.from_ancestor;
  if (!first_) {
    first_ = signal.at;
    return signal_action::end;
  }
  return forwards || signal.at - *first_ <= repeat_after
           ? signal_action::ignore
           : signal_action::end_now;
}

}  // namespace troupe::cli
