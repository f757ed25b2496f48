#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// A socket that is connected, nonblocking, or why there is none.
struct connected_socket {
  int socket = -1;
  std::string why{};
};

/// One attempt at an address.
boost::asio::awaitable<connected_socket> connect(
  const socket_address& target, std::chrono::milliseconds within);

/// Connects and authenticates, retrying until it succeeds or the time is over,
/// as the other process may start later, and its host's name become known
/// later; stops once the other side has given a wrong answer. Throws
/// `transport` then, and as `make_trust` does.
boost::asio::awaitable<stream_pointer> dial(endpoint address, credentials shown,
                                            std::chrono::milliseconds within);

}  // namespace troupe
