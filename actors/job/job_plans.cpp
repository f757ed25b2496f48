#include "troupe/actors/job/job_plans.hpp"

#include <algorithm>

namespace troupe {

job_plans::job_plans(const std::vector<std::shared_ptr<const plan>>& plans)
  : placement_(plans.front()->placement) {
  for (const auto& each : plans)
    add(*each);
}

void job_plans::add(const plan& further) {
  std::int64_t credits = 0;
  for (const auto& channel : further.channels)
    credits += channel.credits;
  const std::scoped_lock lock(mutex_);
  messages_ = std::max<std::int64_t>(messages_, std::ssize(further.messages));
  microbatches_ = std::max<std::int64_t>(microbatches_, further.microbatches);
  credits_ = std::max(credits_, credits);
}

bool job_plans::has_message(std::int32_t message) const {
  const std::scoped_lock lock(mutex_);
  return message >= 0 && message < messages_;
}

bool job_plans::has_microbatch(std::int32_t microbatch) const {
  const std::scoped_lock lock(mutex_);
  return microbatch >= 0 && microbatch < microbatches_;
}

std::int64_t job_plans::most_credits() const {
  const std::scoped_lock lock(mutex_);
  return credits_;
}

}  // namespace troupe
