#include "troupe/monitors/live/attachment.hpp"

#include <atomic>
#include <mutex>
#include <thread>

#include "troupe/monitors/live/event_parts.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe {

struct attachment::state {
  state(const std::string& endpoint, monitor what, const std::string& token)
    : watcher(std::move(what)), client(endpoint, token) {
    client.watch(watcher.wants);
    thread = std::thread([this] { run(); });
  }
  ~state() {
    client.interrupt();
    thread.join();
  }

  void run();
  bool take(const live_message& message);
  void note(const char* what);

  const monitor watcher;
  live_client client;
  event_joiner joiner;
  std::atomic<bool> ended{false};
  mutable std::mutex mutex;
  std::string trouble;
  std::thread thread;
};

void attachment::state::run() {
  try {
    client.stream([this](const live_message& one) { return take(one); });
  } catch (const error& reason) {
    if (reason.code() != error_code::interrupted)
      note(reason.what());
  } catch (const std::exception& reason) {
    note(reason.what());
  }
  try {
    if (watcher.finish)
      watcher.finish();
  } catch (const std::exception& reason) {
    note(reason.what());
  }
  ended = true;
}

/// False: the job has ended the stream.
bool attachment::state::take(const live_message& message) {
  if (message.type == live_type::ended)
    return false;
  if (message.type != live_type::event)
    return true;
  if (const auto whole = joiner.add(message.content))
    watcher.see(*whole);
  return true;
}

void attachment::state::note(const char* what) {
  const std::scoped_lock lock(mutex);
  if (trouble.empty())
    trouble = what;
}

attachment::attachment(std::unique_ptr<state> begun)
  : state_(std::move(begun)) {}
attachment::~attachment() = default;
attachment::attachment(attachment&&) noexcept = default;

bool attachment::ended() const {
  return state_->ended;
}

std::string attachment::trouble() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->trouble;
}

attachment attach(const std::string& endpoint, monitor watcher,
                  const std::string& token) {
  if (has(watcher.wants.needs, tensor_needs::handle))
    fail(
      error_code::invalid_argument,
      "monitor {}: tensors are not sent to another process; request statistics",
      watcher.name);
  return attachment(
    std::make_unique<attachment::state>(endpoint, std::move(watcher), token));
}

}  // namespace troupe
