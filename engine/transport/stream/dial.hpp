#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// A connected, nonblocking socket, which the receiver closes; or below 0, and
/// why there is none.
struct connected_socket {
  int socket = -1;
  std::string problem{};
};

/// Tries once to connect to an address.
boost::asio::awaitable<connected_socket> connect(
  const socket_address& target, std::chrono::milliseconds time_limit);

/// Connects and authenticates. Retries until it succeeds or the time is over,
/// as the other process, or its host's name, may appear later; stops once the
/// other side has answered wrongly. Throws `transport` without a link, and as
/// `make_trust` does.
boost::asio::awaitable<stream_pointer> dial(
  endpoint address, credentials own, std::chrono::milliseconds time_limit);

}  // namespace troupe
