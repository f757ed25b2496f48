#include "troupe/monitors/live/attachment.hpp"

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/live/event_json.hpp"

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

attachment::attachment(const std::string& endpoint, monitor watcher,
                       const std::string& token)
  : watcher_(without_handles(std::move(watcher))), client_(endpoint, token) {
  client_.watch(watcher_.wants);
  thread_ = std::thread([this] { run(); });
}

attachment::~attachment() {
  client_.interrupt();
  thread_.join();
}

void attachment::run() {
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
bool attachment::take(const live_message& message) {
  if (message.type == "event")
    watcher_.see(event_of(message.content));
  return message.type != "ended";
}

void attachment::note(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  if (trouble_.empty())
    trouble_ = what;
}

std::string attachment::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

}  // namespace troupe
