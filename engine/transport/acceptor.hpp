#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/byte_stream.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/trust.hpp"

namespace troupe {

struct acceptor_options {
  /// How long one that connects may take to show who it is.
  std::chrono::milliseconds within = std::chrono::seconds(10);
  /// How many may be at it at a time; one more, and the oldest is dropped.
  std::size_t pending = 64;
};

/// Listens at an endpoint, and hands on those who have shown who they are.
/// Who says nothing costs a file descriptor for a while, and nobody waits for
/// him.
class acceptor {
 public:
  struct events {
    std::function<void(stream_pointer)> arrived;
    /// Why somebody was turned away.
    std::function<void(const std::string& reason)> refused = {};
  };

  /// Events are called on the loop's thread; the loop outlives the acceptor.
  /// Throws as `listener` and `make_trust` do.
  acceptor(io_loop& loop, const endpoint& at, const credentials& shown,
           events then, const acceptor_options& options = {});
  /// Not from within an event. No event is called afterwards.
  ~acceptor();
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  /// With the port that was taken.
  const endpoint& where() const;

 private:
  class impl;
  io_loop& loop_;
  std::shared_ptr<impl> impl_;
};

}  // namespace troupe
