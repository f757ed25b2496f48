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

/// A rank that can't go on before something happens elsewhere.
struct wait {
  std::int32_t rank = 0;
  std::uint32_t op = 0;      // that can't take place
  std::uint32_t for_op = 0;  // that has to take place before
  std::string text{};        // as a sentence
};

/// The result of `verify`.
struct verdict {
  bool progress = true;
  /// The cycle of the fewest waits, each of which ends at the rank of the next
  /// one; empty with progress.
  std::vector<wait> cycle{};
  /// By rank, unless there is progress: the op at which its lane stands; the
  /// end of its lane if nothing is left.
  std::vector<std::uint32_t> stands_at{};
  /// Transfers that lanes have passed and that have not taken place.
  std::vector<std::uint32_t> posted{};

  /// The verdict as one line.
  std::string text() const;
};

/// Replays a plan against a model of its transport, and either proves that
/// every op takes place or finds the cycle of waits. As a plan leaves no choice
/// open, one replay is a proof. Linear in the number of ops.
verdict verify(const plan& plan, const transport_model& model = {});

/// Parses "buffered", "credited" or "rendezvous"; throws invalid_argument.
transport_kind parse_transport(std::string_view name);

}  // namespace troupe
