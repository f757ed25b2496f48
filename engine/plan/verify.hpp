#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// How far a send can run ahead of its receive.
enum class transport_kind : std::uint8_t {
  /// A send never waits (MPI's buffered mode).
  buffered,
  /// A lane waits at a send until its channel has a credit: fewer messages sent
  /// and not yet consumed than `channel::credits`.
  credited,
  /// A lane waits at a send until the receiver's lane is at the receive, and
  /// vice versa (MPI's synchronous mode, unbuffered NCCL on one stream).
  rendezvous,
};

struct transport_model {
  transport_kind kind = transport_kind::buffered;
  /// The sends and receives that a rank exchanges with one peer, both ways,
  /// take place in the order of its lane (one communicator for a pair of
  /// ranks). Otherwise each directed edge has its own FIFO.
  bool shared_fifo = false;
};

/// The result of `verify`.
struct verdict {
  bool progress = true;
  /// The smallest cycle of waits, one sentence each; empty with progress.
  std::vector<std::string> cycle{};

  /// The verdict as one line.
  std::string text() const;
};

/// Replays a plan against a model of its transport, and either proves that
/// every op takes place or finds the cycle of waits. As a plan leaves no choice
/// open, one replay is a proof. Linear in the number of ops.
verdict verify(const plan& plan, const transport_model& model = {});

/// Parses "buffered", "credited" or "rendezvous"; throws invalid_argument.
transport_kind parse_transport(std::string_view name);
std::string_view to_text(transport_kind kind);

}  // namespace troupe
