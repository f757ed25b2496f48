#include "troupe/monitors/live/rebalance_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void rebalance_policy::begin_epoch(const std::vector<std::int64_t>& pids,
                                   const hosting& hosts) {
  measured_ = 0;
  // Process numbers mean others now.
  if (std::exchange(pids_, pids) != pids)
    left_.clear();
  else if (now_ != hosts)
    left_.push_back(now_);
  now_ = hosts;
}

bool rebalance_policy::looks_after(std::int64_t step) {
  return ++measured_ >= rules_.least_measured && step % rules_.look_every == 0
         && (!moved_at_ || step >= *moved_at_ + rules_.rest);
}

bool rebalance_policy::takes(const hosting_choice& choice,
                             std::int64_t left) const {
  const auto limit = static_cast<double>(std::min(rules_.pays_within, left));
  return choice.gain() >= rules_.least_gain && choice.steps_to_pay() <= limit
         && std::ranges::count(left_, choice.hosting) == 0;
}

hosting_choice calibrated(hosting_choice choice, double seconds) {
  const auto scale = std::min(1.0, seconds / choice.now);
  choice.then = seconds - (choice.now - choice.then) * scale;
  choice.now = seconds;
  return choice;
}

}  // namespace troupe
