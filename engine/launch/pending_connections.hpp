#pragma once

#include <functional>
#include <set>

#include "troupe/engine/launch/loop_guard.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/io_loop.hpp"

namespace troupe {

/// Connections of authenticated processes that have not yet identified
/// themselves. Used on the loop's thread.
class pending_connections {
 public:
  pending_connections(io_loop& loop, const loop_guard& guard)
    : loop_(loop), guard_(guard) {}

  /// `then` gets the first message, which has no tensors, and takes over the
  /// connection. A process that leaves before is forgotten.
  void listen(const connection_pointer& peer,
              std::function<void(const rendezvous_message&)> then);

 private:
  io_loop& loop_;
  loop_guard guard_;
  std::set<connection_pointer> all_;
};

}  // namespace troupe
