#include "troupe/monitors/live/outbox.hpp"

#include <utility>

namespace troupe {

bool outbox::offer(const std::vector<std::string>& frames) {
  std::size_t bytes = 0;
  for (const auto& frame : frames)
    bytes += frame.size();
  const std::scoped_lock lock(mutex_);
  if (!wake_)
    return false;
  if (waiting_.size() + leaving_ + bytes > limit_) {
    ++dropped_;
    return false;
  }
  for (const auto& frame : frames)
    waiting_ += frame;
  wake_();
  return true;
}

void outbox::put(const std::string& frame) {
  const std::scoped_lock lock(mutex_);
  if (!wake_)
    return;
  waiting_ += frame;
  wake_();
}

bool outbox::is_full() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.size() + leaving_ >= limit_;
}

void outbox::close() {
  const std::scoped_lock lock(mutex_);
  wake_ = nullptr;
  waiting_.clear();
  waiting_.shrink_to_fit();
}

bool outbox::is_open() const {
  const std::scoped_lock lock(mutex_);
  return wake_ != nullptr;
}

std::int64_t outbox::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

std::string outbox::take() {
  const std::scoped_lock lock(mutex_);
  leaving_ = waiting_.size();
  return std::exchange(waiting_, {});
}

void outbox::sent() {
  const std::scoped_lock lock(mutex_);
  leaving_ = 0;
}

}  // namespace troupe
