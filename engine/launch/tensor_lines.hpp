#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "troupe/engine/launch/loop_guard.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"

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

/// A process's connections for tensors, two with each other process: one that
/// it dialled, to send, and one that it accepted. They are unix sockets (or
/// shared memory) if the processes meet over them, or share a machine and can;
/// else TCP. Used on the loop's thread except for the constructor.
class tensor_lines {
 public:
  using added = std::function<void(std::int32_t process, line purpose,
                                   const connection_pointer& peer)>;

  /// Starts to listen. Errors are reported to the guard, which must end before
  /// this is destroyed. The options must outlive this. Throws as `acceptor`
  /// does.
  tensor_lines(io_loop& loop, const job_options& options,
               const meeting_point& point, const loop_guard& guard, added then);

  /// Where the others reach this process.
  const process_address& own() const { return own_; }

  /// Connects to the processes of that run at these addresses; `then` gets each
  /// line.
  void begin(std::uint64_t run, const std::vector<process_address>& all);

  bool are_complete() const {
    return count_ == 2 * (options_.place.processes - 1);
  }

 private:
  bool tells_for_machine() const;
  void listen_near();
  std::unique_ptr<acceptor> accept_at(const endpoint& address,
                                      const credentials& shown);
  credentials shown_near() const;
  /// Returns the endpoint that is dialled.
  endpoint dial_to(std::int32_t process, const process_address& there);
  void take(stream_pointer stream, bool is_unix);
  void take(const line_hello& hello, const connection_pointer& peer);
  stream_pointer as_line(stream_pointer stream, link_side side,
                         bool is_unix) const;

  io_loop& loop_;
  const job_options& options_;
  loop_guard guard_;
  added then_;
  pending_connections pending_;
  std::uint64_t run_ = 0;
  std::int32_t count_ = 0;
  std::set<std::int32_t> came_in_;
  std::vector<std::pair<line_hello, connection_pointer>> early_;
  // These may use the members above, so they come last.
  std::unique_ptr<acceptor> acceptor_, near_acceptor_;
  process_address own_;
};

}  // namespace troupe
