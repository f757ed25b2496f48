#pragma once

#include <functional>
#include <set>

#include "troupe/engine/launch/loop_guard.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/io_loop.hpp"

namespace troupe {

/// Connections of processes that have shown that they belong to the job, but
/// have not said which they are. On the loop's thread.
class newcomers {
 public:
  newcomers(io_loop& loop, const loop_guard& guard)
    : loop_(loop), guard_(guard) {}

  /// `then` hears what is said first, which is one message without tensors,
  /// and has the connection from there on. Who leaves before is forgotten.
  void listen(const connection_pointer& with,
              std::function<void(const rendezvous_message&)> then);

 private:
  io_loop& loop_;
  loop_guard guard_;
  std::set<connection_pointer> all_;
};

}  // namespace troupe
