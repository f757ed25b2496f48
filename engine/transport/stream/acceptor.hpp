#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

struct acceptor_options {
  /// The time that a new connection has to authenticate.
  std::chrono::milliseconds time_limit = std::chrono::seconds(10);
  /// The number of connections that may authenticate at a time; one more, and
  /// the oldest is dropped.
  std::size_t pending = 64;
};

/// Listens at an endpoint and hands on authenticated connections. A silent
/// client costs a file descriptor for a while, but delays nobody.
class acceptor {
 public:
  struct events {
    std::function<void(stream_pointer)> arrived;
    /// Why a connection was refused.
    std::function<void(const std::string& reason)> refused = {};
  };

  /// Used on the executor's thread, which calls the events. Throws as
  /// `listener` and `make_trust` do.
  acceptor(const boost::asio::any_io_executor& executor,
           const endpoint& address, const credentials& own, events handlers,
           const acceptor_options& options = {});
  /// Don't destroy within an event. No event is called afterwards.
  ~acceptor();
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  /// The endpoint, with the port that was taken.
  const endpoint& where() const;

 private:
  class impl;
  std::shared_ptr<impl> impl_;
};

}  // namespace troupe
