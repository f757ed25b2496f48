#include "troupe/engine/device/communicator_watch.hpp"

#include <fmt/format.h>

#include "troupe/base/error.hpp"

namespace troupe {

std::string describe(const std::string& communicator, const stuck_call& stuck) {
  auto text = fmt::format("{} is stuck: {} has been running for {:.0f} s",
                          communicator, stuck.call, stuck.seconds);
  if (stuck.behind > 0)
    text += fmt::format(", with {} call{} behind it", stuck.behind,
                        stuck.behind == 1 ? "" : "s");
  return text;
}

void communicator_watch::note(std::string call, event_handle done,
                              time_point now) {
  const std::lock_guard lock{mutex_};
  forget_what_is_done(now);
  if (calls_.empty())
    first_since_ = now;
  calls_.push_back({std::move(call), std::move(done)});
}

bool communicator_watch::first_is_done() const {
  try {
    return calls_.front().done->reached();
  } catch (const error& problem) {
    throw error{problem.code(),
                fmt::format("{}: {}", calls_.front().call, problem.what())};
  }
}

void communicator_watch::forget_what_is_done(time_point now) {
  while (!calls_.empty() && first_is_done()) {
    calls_.pop_front();
    first_since_ = now;
  }
}

std::optional<stuck_call> communicator_watch::look(time_point now) {
  const std::lock_guard lock{mutex_};
  forget_what_is_done(now);
  const std::chrono::duration<double> waited = now - first_since_;
  if (calls_.empty() || waited < time_out_)
    return {};
  return stuck_call{calls_.front().call, waited.count(), calls_.size() - 1};
}

}  // namespace troupe
