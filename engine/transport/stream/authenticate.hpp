#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/trust/link_side.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Why a link could not be established.
struct refusal {
  std::string reason;
  /// The other side has sent something wrong, so trying again is useless.
  bool is_final = false;
};

/// Refuses the other end of a unix socket unless it belongs to the same user or
/// to root; the other end of a TCP socket is never refused here.
std::optional<refusal> refused_user(int socket);

/// A stream over a connected socket, which it owns from then on: within TLS, if
/// `trusted` has TLS settings.
stream_pointer stream_over(int socket, const trust& trusted, link_side side);

/// Exchanges the first bytes of a `stream_over`, by which its ends authenticate
/// each other. Returns no refusal if the other side is trusted; at a unix
/// socket it then belongs to the same user. Uses bounded memory and no further
/// file descriptor. A refusal closes the stream.
boost::asio::awaitable<std::optional<refusal>> authenticate(
  awaited_stream& stream, link_side side, const trust& trusted,
  std::chrono::milliseconds time_limit);

}  // namespace troupe
