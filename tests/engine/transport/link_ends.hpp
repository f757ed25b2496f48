#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stream_kinds.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/engine/transport/stream/dial.hpp"

namespace troupe::testing {

/// `authenticate` from any thread: `done` gets the stream once both sides are
/// authenticated; otherwise `failed` gets a sentence.
inline void authenticate(io_loop& loop, int socket, link_side own,
                         const trust& trusted, std::chrono::milliseconds within,
                         std::function<void(stream_pointer)> done,
                         std::function<void(std::string reason)> failed) {
  const auto on = loop.context().get_executor();
  spawn(on, [=]() -> boost::asio::awaitable<void> {
    awaited_stream stream(on, stream_over(socket, trusted, own));
    const auto refused =
      co_await troupe::authenticate(stream, own, trusted, within);
    refused ? failed(refused->reason) : done(stream.take());
  });
}

/// The same for `dial`.
inline void dial(io_loop& loop, const endpoint& at, const credentials& shown,
                 std::chrono::milliseconds within,
                 std::function<void(stream_pointer)> done,
                 std::function<void(std::string reason)> failed) {
  spawn(loop.context().get_executor(), [=]() -> boost::asio::awaitable<void> {
    stream_pointer stream;
    std::string reason;
    try {
      stream = co_await troupe::dial(at, shown, within);
    } catch (...) {
      reason = thrown_text();
    }
    stream ? done(std::move(stream)) : failed(reason);
  });
}

/// An acceptor on a loop that another thread runs.
class loop_acceptor {
 public:
  loop_acceptor(io_loop& loop, const endpoint& at, const credentials& shown,
                const acceptor::events& then,
                const acceptor_options& options = {})
    : loop_(loop) {
    loop_.run([&] {
      acceptor_.emplace(loop.context().get_executor(), at, shown, then,
                        options);
    });
  }
  ~loop_acceptor() {
    loop_.run([this] { acceptor_.reset(); });
  }
  loop_acceptor(const loop_acceptor&) = delete;
  loop_acceptor& operator=(const loop_acceptor&) = delete;

  const endpoint& where() const { return acceptor_->where(); }

 private:
  io_loop& loop_;
  std::optional<acceptor> acceptor_;
};

/// The result of a dial or an authentication: a stream, or a reason.
class link_outcome {
 public:
  auto done() {
    return [state = state_](stream_pointer stream) {
      state->promise.set_value({std::move(stream), {}});
    };
  }
  auto failed() {
    return [state = state_](const std::string& reason) {
      state->promise.set_value({nullptr, reason});
    };
  }
  struct result {
    stream_pointer stream;
    std::string reason;
  };
  /// No stream if neither was called within a minute.
  result wait() {
    auto future = state_->promise.get_future();
    if (future.wait_for(std::chrono::minutes(1)) != std::future_status::ready)
      return {nullptr, "nothing was called"};
    return future.get();
  }

 private:
  struct shared_state {
    std::promise<result> promise;
  };
  std::shared_ptr<shared_state> state_ = std::make_shared<shared_state>();
};

/// Records the calls of an acceptor.
class recorded_arrivals {
 public:
  acceptor::events events() {
    return {[this](stream_pointer stream) {
              const std::scoped_lock lock(mutex_);
              streams_.push_back(std::move(stream));
              changed_.notify_all();
            },
            [this](const std::string& reason) {
              const std::scoped_lock lock(mutex_);
              reasons_.push_back(reason);
              changed_.notify_all();
            }};
  }
  std::vector<std::string> wait_for_refusals(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1),
                      [&] { return reasons_.size() >= count; });
    return reasons_;
  }
  stream_pointer wait_for_stream() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1),
                      [&] { return !streams_.empty(); });
    if (streams_.empty())
      return nullptr;
    auto last = std::move(streams_.back());
    streams_.pop_back();
    return last;
  }
  std::size_t streams() {
    const std::scoped_lock lock(mutex_);
    return streams_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<stream_pointer> streams_;
  std::vector<std::string> reasons_;
};

inline link_outcome::result dial_and_wait(
  io_loop& loop, const endpoint& at, const credentials& shown,
  std::chrono::milliseconds within = std::chrono::seconds(30)) {
  link_outcome outcome;
  dial(loop, at, shown, within, outcome.done(), outcome.failed());
  return outcome.wait();
}

/// The first bytes that a client with these credentials sends.
inline std::string first_words(const trust& by) {
  const auto ends = unix_sockets();
  io_loop loop;
  link_outcome client;
  authenticate(loop, ends[0], link_side::client, by, std::chrono::minutes(1),
               client.done(), client.failed());
  std::string sent(4096, 0);
  sent.resize(
    static_cast<std::size_t>(::recv(ends[1], sent.data(), sent.size(), 0)));
  ::close(ends[1]);
  client.wait();
  return sent;
}

}  // namespace troupe::testing
