#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// Messages to one client: bounded, so that a slow client costs no more memory
/// than that. Thread-safe; callers never wait for the client.
class outbox {
 public:
  /// `wake` is called when there is something to send; it must not wait, nor
  /// call the outbox.
  outbox(std::size_t limit, std::function<void()> wake)
    : limit_(limit), wake_(std::move(wake)) {}

  /// Frames that belong together: all of them or, for lack of room, none.
  bool offer(const std::vector<std::string>& frames);
  /// A frame that is never dropped; the caller bounds how many there are.
  void put(const std::string& frame);
  /// Whether as much waits as may: time to ask for no more.
  bool is_full() const;
  /// Stops taking messages and waking the sender.
  void close();
  bool is_open() const;
  /// Offers that were dropped for lack of room.
  std::int64_t dropped() const;

  /// Everything that waits; it counts until it was `sent`.
  std::string take();
  void sent();

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  std::string waiting_;
  std::size_t leaving_ = 0;  // bytes taken and not sent yet
  std::int64_t dropped_ = 0;
};
using outbox_pointer = std::shared_ptr<outbox>;

}  // namespace troupe
