#include "troupe/monitors/live/attachment.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/followed_events.hpp"

namespace troupe {

namespace {

monitor without_handles(monitor watcher) {
  if (has(watcher.wants.needs, tensor_needs::handle))
    fail(
      error_code::invalid_argument,
      "monitor {}: tensors are not sent to another process; request statistics",
      watcher.name);
  return watcher;
}

}  // namespace

class attachment::impl {
 public:
  impl(const std::string& endpoint, monitor watcher, const std::string& token);
  ~impl();

  bool ended() const { return ended_; }
  std::string trouble() const;

 private:
  void run();
  void note(const std::string& what);

  const monitor watcher_;
  followed_job job_;
  followed_events events_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::string trouble_;
  std::thread thread_;  // the last: it uses the others
};

attachment::impl::impl(const std::string& endpoint, monitor watcher,
                       const std::string& token)
  : watcher_(without_handles(std::move(watcher))),
    job_(endpoint, token),
    events_(job_, watcher_.wants) {
  thread_ = std::thread([this] { run(); });
}

attachment::impl::~impl() {
  job_.interrupt();
  thread_.join();
}

void attachment::impl::run() {
  try {
    events_.stream([this](const live_message& message) {
      if (message.type == "event")
        watcher_.see(event_of(message.content));
      return true;
    });
  } catch (const error& reason) {
    if (reason.code() != error_code::interrupted)
      note(reason.what());
  } catch (...) {
    note(thrown_text());
  }
  try {
    if (watcher_.finish)
      watcher_.finish();
  } catch (...) {
    note(thrown_text());
  }
  ended_ = true;
}

void attachment::impl::note(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (trouble_.empty())
    trouble_ = what;
}

std::string attachment::impl::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

attachment::attachment(const std::string& endpoint, monitor watcher,
                       const std::string& token)
  : impl_(std::make_unique<impl>(endpoint, std::move(watcher), token)) {}

attachment::~attachment() = default;

bool attachment::ended() const {
  return impl_->ended();
}

std::string attachment::trouble() const {
  return impl_->trouble();
}

}  // namespace troupe
