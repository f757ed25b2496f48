#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/byte_stream.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/token_proof.hpp"
#include "troupe/engine/transport/trust.hpp"

namespace troupe {

/// How a link came to nothing.
struct refusal {
  std::string reason;
  /// The other side had said something, so that trying again is of no use.
  bool answered = false;
};

/// Two ends that are showing each other who they are. Exactly one of the
/// functions is called, on the loop's thread; none after `stop`.
class authentication : public std::enable_shared_from_this<authentication> {
 public:
  struct outcome {
    std::function<void(stream_pointer)> done;
    std::function<void(const refusal&)> failed;
  };

  /// On the loop's thread. Takes the connected socket; a bounded amount of
  /// memory, and no further file descriptor.
  static std::shared_ptr<authentication> begin(io_loop& loop, int socket,
                                               link_side own, const trust& by,
                                               std::chrono::milliseconds within,
                                               outcome then);
  virtual ~authentication() = default;
  /// On the loop's thread; closes the socket.
  virtual void stop() = 0;
};

/// The same from any thread: `done` gets the stream when both sides have shown
/// who they are; else `failed` gets a sentence, without the token.
void authenticate(io_loop& loop, int socket, link_side own, const trust& by,
                  std::chrono::milliseconds within,
                  std::function<void(stream_pointer)> done,
                  std::function<void(std::string reason)> failed);

}  // namespace troupe
