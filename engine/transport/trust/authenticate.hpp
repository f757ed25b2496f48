#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "troupe/engine/transport/introduction.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Why a link could not be established.
struct refusal {
  std::string reason;
  /// The other side has sent something wrong, so trying again is useless.
  bool answered = false;
};

/// A stream over a connected socket, which it owns from then on: within TLS, if
/// the trust wants that.
stream_pointer stream_over(int socket, const trust& trusted, link_side own);

/// Exchanges an introduction; false: the other side has ended. Throws
/// `transport`, saying why the other side isn't trusted.
boost::asio::awaitable<bool> introduce(awaited_stream& over,
                                       introduction& shown);

/// Authenticates two ends of a `stream_over`; uses bounded memory and no
/// further file descriptor. A refusal closes the stream.
boost::asio::awaitable<std::optional<refusal>> authenticate(
  std::shared_ptr<awaited_stream> over, link_side own, const trust& trusted,
  std::chrono::milliseconds within);

}  // namespace troupe
