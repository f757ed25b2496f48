#include "troupe/actors/recording/recording.hpp"

#include "troupe/engine/device/thrown.hpp"

namespace troupe {

bool recording::attempt(const std::string& op,
                        const std::function<void()>& work) {
  const std::scoped_lock lock(turn_);
  if (!problem_.empty())
    return false;
  try {
    work();
  } catch (...) {
    problem_ = op + ": " + thrown_text();
  }
  return problem_.empty();
}

void recording::fail(const std::string& why) {
  const std::scoped_lock lock(turn_);
  if (problem_.empty())
    problem_ = why;
}

std::string recording::problem() const {
  const std::scoped_lock lock(turn_);
  return problem_;
}

}  // namespace troupe
