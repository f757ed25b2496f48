#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Why a link could not be established.
struct refusal {
  std::string reason;
  /// The other side has sent something wrong, so trying again is useless.
  bool answered = false;
};

struct authentication_outcome {
  std::function<void(stream_pointer)> done;
  std::function<void(const refusal&)> failed;
};

/// Begins to authenticate two ends. Call on the loop's thread. Takes ownership
/// of the connected socket; uses bounded memory and no further file descriptor.
/// Calls exactly one of the functions, on the loop's thread. Returns what stops
/// it, on the loop's thread: closes the socket, and none is called any more.
std::function<void()> begin_authentication(io_loop& loop, int socket,
                                           link_side own, const trust& trusted,
                                           std::chrono::milliseconds within,
                                           authentication_outcome then);

}  // namespace troupe
