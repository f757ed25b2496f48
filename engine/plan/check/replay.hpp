#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/check/wait_graph.hpp"
#include "troupe/engine/plan/cost/turn_queue.hpp"

namespace troupe {

/// The state of `verify`: the progress of each lane and each FIFO. A transfer
/// is issued when its lane reaches it, and takes place when it is the first of
/// its FIFO and the transport allows it.
class replay {
 public:
  replay(const plan& plan, const transport_model& model);

  /// Runs until nothing can move.
  void run();
  bool finished() const;
  /// The waits of the smallest cycle of lanes and FIFOs.
  std::vector<wait> explain() const;
  /// As in `verdict`.
  std::vector<std::uint32_t> positions() const { return next_; }
  std::vector<std::uint32_t> posted() const;

 private:
  // The transfers of one end of a directed pair of ranks, or of a pair, in lane
  // order.
  struct fifo {
    std::uint32_t first = 0;  // into transfers_
    std::uint32_t issued = 0;
    std::uint32_t ended = 0;
  };

  static constexpr auto nothing = static_cast<std::uint32_t>(none);

  void make_fifos();
  void run_lane(std::int32_t rank);
  bool attempt(std::uint32_t op);
  bool attempt_compute(std::uint32_t op);
  bool stands_at(plan_op_kind kind) const;
  void consume(std::int32_t message);
  void pump(std::size_t fifo_index);
  bool end_first(fifo& fifo);
  bool meet(std::uint32_t op, const message& what);

  const message& message_of(std::uint32_t op) const;
  const channel& channel_of(std::uint32_t op) const;
  std::size_t fifo_of(std::uint32_t op) const;
  std::uint32_t head(const fifo& fifo) const;
  bool is_issued(std::uint32_t op) const;
  std::int32_t peer_of(std::uint32_t op) const;
  std::uint32_t unmet_dependency(std::uint32_t op) const;
  std::int32_t blocker(std::uint32_t op) const;

  // Nodes of the wait graph: lanes, then FIFOs.
  std::int32_t fifo_node(std::size_t index) const;
  std::int32_t node_of(std::uint32_t dependency) const;
  std::vector<wait_edge> lane_waits(std::int32_t rank) const;
  std::vector<wait_edge> fifo_waits(const fifo& fifo) const;
  std::int32_t other_end(std::uint32_t op) const;
  std::optional<wait> lane_wait(std::int32_t rank, std::int32_t node) const;
  wait fifo_wait(std::size_t index) const;
  wait credit_wait(std::uint32_t send, wait position) const;

  const plan& plan_;
  transport_model model_;
  turn_queue turns_;
  std::vector<std::uint32_t> next_;      // by rank
  std::vector<std::uint8_t> ended_;      // by op
  std::vector<std::int32_t> in_flight_;  // by channel
  std::vector<std::int32_t> from_fifo_;  // by channel
  std::vector<std::int32_t> to_fifo_;    // by channel
  std::vector<fifo> fifos_;
  std::vector<std::uint32_t> transfers_;
  std::vector<std::size_t> to_pump_;
  bool moved_ = false;  // true if anything has moved in this turn
};

}  // namespace troupe
