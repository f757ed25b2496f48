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
  bool answered = false;
};

/// Refuses the other end of a unix socket unless it is the same user's, or
/// root's; never that of TCP.
std::optional<refusal> refused_user(int socket);

/// A stream over a connected socket, which it owns from then on: within TLS, if
/// the trust wants that.
stream_pointer stream_over(int socket, const trust& trusted, link_side own);

/// Exchanges the bytes that two ends of a `stream_over` say first, to
/// authenticate, within a time. None: the other side is trusted, and at a unix
/// socket it is the same user's. Uses bounded memory and no further file
/// descriptor. A refusal closes the stream.
boost::asio::awaitable<std::optional<refusal>> authenticate(
  awaited_stream& over, link_side own, const trust& trusted,
  std::chrono::milliseconds within);

}  // namespace troupe
