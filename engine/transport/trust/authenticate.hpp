#pragma once

#include <chrono>
#include <functional>
#include <memory>
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

/// A running authentication of two ends. Calls exactly one of the functions, on
/// the loop's thread; none after `stop`.
class authentication : public std::enable_shared_from_this<authentication> {
 public:
  struct outcome {
    std::function<void(stream_pointer)> done;
    std::function<void(const refusal&)> failed;
  };

  /// Call on the loop's thread. Takes ownership of the connected socket; uses
  /// bounded memory and no further file descriptor.
  static std::shared_ptr<authentication> begin(io_loop& loop, int socket,
                                               link_side own,
                                               const trust& trusted,
                                               std::chrono::milliseconds within,
                                               outcome then);
  virtual ~authentication() = default;
  /// Call on the loop's thread; closes the socket.
  virtual void stop() = 0;
};

}  // namespace troupe
