#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Connects and authenticates, retrying until it succeeds or the time is over,
/// as the other process may start later, and its host's name become known
/// later; stops once the other side has given a wrong answer. Throws
/// `transport` then, and as `make_trust` does.
boost::asio::awaitable<stream_pointer> dial(endpoint address, credentials shown,
                                            std::chrono::milliseconds within);

}  // namespace troupe
