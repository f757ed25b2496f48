#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe {

/// Callbacks of an authority_link, which must outlive it.
struct authority_link_events {
  /// The first message of each connection; on any thread.
  std::function<membership_request()> request;
  /// A message has arrived; on the loop's thread. An exception ends the
  /// connection.
  std::function<void(const membership_message&)> arrived;
  /// The connection is lost; on the loop's thread.
  std::function<void()> lost;
};

/// A process's connection to the authority of its job, which is made again
/// whenever it is lost. Any thread, except for the destructor: not the loop's.
class authority_link {
 public:
  /// The address is as in membership_options. The loop must outlive this.
  /// Throws `invalid_argument` unless address and credentials fit together.
  authority_link(io_loop& loop, const std::string& address, credentials shown,
                 authority_link_events handlers);
  ~authority_link();
  authority_link(const authority_link&) = delete;
  authority_link& operator=(const authority_link&) = delete;

  /// Dropped if there is no connection.
  void send(const membership_message& message);
  /// Where the authority was found last.
  endpoint where() const;
  /// Since when there is no connection; none: there is one.
  std::optional<std::chrono::steady_clock::time_point> lost_since() const;
  /// Throws `transport` if there has been no connection for longer.
  void require_within(std::chrono::milliseconds longest) const;
  /// Why there is no connection.
  std::string trouble() const;
  /// No other connection is wanted once this one is lost.
  void stop_connecting();
  /// Says goodbye, for which the other side takes some time. To be called last.
  void finish();

 private:
  void keep_connected();
  std::string connect();
  void start(connection_pointer fresh);

  io_loop& loop_;
  const std::string address_;
  std::function<endpoint()> find_;
  credentials shown_;
  authority_link_events events_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  connection_pointer link_;  // null: there is none now
  bool is_over_ = false;     // no other connection is wanted
  endpoint where_;
  std::string trouble_;
  std::chrono::steady_clock::time_point lost_since_;
  std::thread connector_;
};

}  // namespace troupe
