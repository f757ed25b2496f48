#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "troupe/engine/plan/check/replay.hpp"
#include "troupe/engine/plan/check/wait_graph.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

std::int32_t replay::fifo_node(std::size_t index) const {
  return plan_.ranks() + static_cast<std::int32_t>(index);
}

// What an op waits for that needs this dependency.
std::int32_t replay::node_of(std::uint32_t dependency) const {
  return plan_.ops[dependency].kind == plan_op_kind::receive
             && is_issued(dependency)
           ? fifo_node(fifo_of(dependency))
           : plan_.rank_of(dependency);
}

// The edge adds no wait if that of the FIFO is sufficient.
std::vector<wait_edge> replay::lane_waits(std::int32_t rank) const {
  constexpr std::size_t most = 64;  // an update waits for the norms of all
  const auto op = next_[slot(rank)];
  std::vector<wait_edge> edges;
  const auto add_fifo = [&](std::uint32_t transfer) {
    const auto index = fifo_of(transfer);
    edges.push_back(
      {fifo_node(index), head(fifos_[index]) == transfer ? 0 : 1});
  };
  if (op == plan_.first_op[slot(rank) + 1])
    return edges;
  if (is_transfer(plan_.ops[op].kind)) {
    add_fifo(op);
    return edges;
  }
  for (const auto dependency : plan_.dependencies_of(plan_.ops[op])) {
    if (ended_[dependency] != 0 || edges.size() == most)
      continue;
    if (const auto node = node_of(dependency); node < plan_.ranks())
      edges.push_back({node, 1});
    else
      add_fifo(dependency);
  }
  return edges;
}

// Where the other end of an unfinished transfer is blocked.
std::int32_t replay::other_end(std::uint32_t op) const {
  const auto& what = message_of(op);
  const auto other = op == what.send ? what.receive : what.send;
  return is_issued(other) ? fifo_node(fifo_of(other)) : peer_of(op);
}

std::vector<wait_edge> replay::fifo_waits(const fifo& fifo) const {
  const auto op = head(fifo);
  if (op == nothing)
    return {};
  const auto waits_for_credit = model_.kind == transport_kind::credited
                                && plan_.ops[op].kind == plan_op_kind::send;
  return {{waits_for_credit ? peer_of(op) : other_end(op), 1}};
}

std::vector<wait> replay::explain() const {
  std::vector<std::vector<wait_edge>> waits_for;
  for (std::int32_t rank = 0; rank < plan_.ranks(); ++rank)
    waits_for.push_back(lane_waits(rank));
  for (const auto& each : fifos_)
    waits_for.push_back(fifo_waits(each));
  const auto cycle = smallest_cycle(waits_for);
  std::vector<wait> waits;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const auto node = cycle[i];
    if (node >= plan_.ranks())
      waits.push_back(fifo_wait(slot(node - plan_.ranks())));
    else if (auto found = lane_wait(node, cycle[(i + 1) % cycle.size()]))
      waits.push_back(std::move(*found));
  }
  return waits;
}

std::vector<std::uint32_t> replay::posted() const {
  std::vector<std::uint32_t> ops;
  for (const auto& each : fifos_)
    for (auto i = each.ended; i < each.issued; ++i) {
      const auto op = transfers_[each.first + i];
      const auto rank = slot(plan_.rank_of(op));
      if (op != next_[rank])
        ops.push_back(op);
    }
  return ops;
}

// The wait of a lane that blocks a node; none if the wait of the FIFO that
// blocks the lane explains it.
std::optional<wait> replay::lane_wait(std::int32_t rank,
                                      std::int32_t node) const {
  const auto op = next_[slot(rank)];
  const auto position = fmt::format("rank {} at {}", rank, to_text(plan_, op));
  if (is_transfer(plan_.ops[op].kind)) {
    const auto first = head(fifos_[fifo_of(op)]);
    if (first == op)
      return {};
    return wait{rank, op, first,
                fmt::format("{} is behind {} in its FIFO", position,
                            to_text(plan_, first))};
  }
  const auto inputs = plan_.dependencies_of(plan_.ops[op]);
  const auto dependency =
    *std::find_if(inputs.begin(), inputs.end(), [&](std::uint32_t input) {
      return ended_[input] == 0 && node_of(input) == node;
    });
  const auto missing = to_text(plan_, dependency);
  if (node < plan_.ranks())
    return wait{rank, op, dependency,
                fmt::format("{} waits for {} of rank {}", position, missing,
                            plan_.rank_of(dependency))};
  const auto first = head(fifos_[fifo_of(dependency)]);
  if (first == dependency)
    return {};
  return wait{rank, op, first,
              fmt::format("{} waits for {}, which is behind {} in its FIFO",
                          position, missing, to_text(plan_, first))};
}

wait replay::fifo_wait(std::size_t index) const {
  const auto op = head(fifos_[index]);
  const auto& what = message_of(op);
  const auto rank = plan_.rank_of(op);
  // A lane that needs this transfer is the most useful to name.
  const auto next = next_[slot(rank)];
  const auto lane_needs_it =
    next < plan_.first_op[slot(rank) + 1] && !is_transfer(plan_.ops[next].kind)
    && std::ranges::count(plan_.dependencies_of(plan_.ops[next]), op) > 0;
  const auto shown = lane_needs_it ? next : op;
  wait found{rank, shown, shown,
             fmt::format("rank {} at {}", rank, to_text(plan_, shown))};
  const auto sends = plan_.ops[op].kind == plan_op_kind::send;
  if (sends && model_.kind == transport_kind::credited)
    return credit_wait(op, std::move(found));
  const auto other = sends ? what.receive : what.send;
  found.for_op = other;
  found.text +=
    fmt::format(" waits for {} of rank {}", to_text(plan_, other), peer_of(op));
  const auto first = head(fifos_[fifo_of(other)]);
  if (is_issued(other) && first != other)
    found.text +=
      fmt::format(", which is behind {} in its FIFO", to_text(plan_, first));
  return found;
}

wait replay::credit_wait(std::uint32_t send, wait position) const {
  std::string names;
  const auto channel = message_of(send).channel;
  for (const auto& what : plan_.messages)
    if (what.channel == channel && ended_[what.send] != 0
        && ended_[what.consumer] == 0) {
      if (names.empty())
        position.for_op = what.consumer;
      names += fmt::format("{}{}", names.empty() ? "" : ", ",
                           to_text(plan_, what.producer));
    }
  const auto& edge = channel_of(send);
  position.text += fmt::format(
    " waits for a credit from rank {} to {}, held by {}, which rank {} has not "
    "consumed",
    edge.from_rank, edge.to_rank, names, peer_of(send));
  return position;
}

}  // namespace troupe
