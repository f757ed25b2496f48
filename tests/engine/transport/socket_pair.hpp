#pragma once

#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>

#include <future>

#include "troupe/engine/transport/connection.hpp"

namespace troupe::testing {

struct stream_pair {
  stream_pointer a, b;
};

inline stream_pair socket_pair() {
  std::array<int, 2> ends{};
  ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
  return {socket_stream(ends[0]), socket_stream(ends[1])};
}

/// Records the calls of a connection, for a thread that waits for them.
class recorded_events {
 public:
  connection_events events() {
    return {{},
            [this](frame what) {
              const std::scoped_lock lock(mutex_);
              frames_.push_back(std::move(what));
              changed_.notify_all();
            },
            [this](const std::string& reason) {
              const std::scoped_lock lock(mutex_);
              lost_ = reason;
              changed_.notify_all();
            }};
  }

  /// After a minute returns an empty list, which fails the test's check.
  std::vector<frame> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1),
                      [&] { return frames_.size() >= count; });
    return std::exchange(frames_, {});
  }
  std::optional<std::string> wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return !!lost_; });
    return lost_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<frame> frames_;
  std::optional<std::string> lost_;
};

}  // namespace troupe::testing
