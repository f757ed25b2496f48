#include "troupe/monitors/live/attachment.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/live_client.hpp"

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
  bool take(const live_message& message);
  void note(const std::string& what);

  const monitor watcher_;
  live_client client_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::string trouble_;
  std::thread thread_;  // the last: it uses the others
};

attachment::impl::impl(const std::string& endpoint, monitor watcher,
                       const std::string& token)
  : watcher_(without_handles(std::move(watcher))), client_(endpoint, token) {
  client_.watch(watcher_.wants);
  thread_ = std::thread([this] { run(); });
}

attachment::impl::~impl() {
  client_.interrupt();
  thread_.join();
}

void attachment::impl::run() {
  try {
    client_.stream([this](const live_message& one) { return take(one); });
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

/// False: the job has ended the stream.
bool attachment::impl::take(const live_message& message) {
  if (message.type == "event")
    watcher_.see(event_of(message.content));
  return message.type != "ended";
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
