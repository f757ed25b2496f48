#include <fmt/format.h>

#include <string>

#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/plan/replay.hpp"
#include "troupe/engine/plan/wait_graph.hpp"

namespace troupe {

std::int32_t replay::fifo_node(std::size_t index) const {
  return plan_.ranks() + static_cast<std::int32_t>(index);
}

std::int32_t replay::lane_waits_for(std::int32_t rank) const {
  const auto r = static_cast<std::size_t>(rank);
  if (next_[r] == plan_.first_op[r + 1])
    return none;
  const auto op = next_[r];
  if (is_transfer(plan_.ops[op].kind))
    return fifo_node(fifo_of(op));
  const auto dependency = unmet_dependency(op);
  return plan_.ops[dependency].kind == plan_op_kind::receive
             && is_issued(dependency)
           ? fifo_node(fifo_of(dependency))
           : plan_.rank_of(dependency);
}

// Where the other end of an unfinished transfer is blocked.
std::int32_t replay::other_end(std::uint32_t op) const {
  const auto& what = message_of(op);
  const auto other = op == what.send ? what.receive : what.send;
  return is_issued(other) ? fifo_node(fifo_of(other)) : peer_of(op);
}

std::int32_t replay::fifo_waits_for(const fifo& fifo) const {
  const auto op = head(fifo);
  if (op == nothing)
    return none;
  const auto waits_for_credit = model_.kind == transport_kind::credited
                                && plan_.ops[op].kind == plan_op_kind::send;
  return waits_for_credit ? peer_of(op) : other_end(op);
}

std::vector<std::string> replay::explain() const {
  std::vector<std::int32_t> waits_for;
  for (std::int32_t rank = 0; rank < plan_.ranks(); ++rank)
    waits_for.push_back(lane_waits_for(rank));
  for (const auto& each : fifos_)
    waits_for.push_back(fifo_waits_for(each));
  std::vector<std::string> sentences;
  for (const auto node : smallest_cycle(waits_for)) {
    auto text =
      node < plan_.ranks()
        ? lane_sentence(node)
        : fifo_sentence(static_cast<std::size_t>(node - plan_.ranks()));
    if (!text.empty())
      sentences.push_back(std::move(text));
  }
  return sentences;
}

// Empty if the sentence of the FIFO that blocks the lane is sufficient.
std::string replay::lane_sentence(std::int32_t rank) const {
  const auto op = next_[static_cast<std::size_t>(rank)];
  const auto position = fmt::format("rank {} at {}", rank, to_text(plan_, op));
  if (is_transfer(plan_.ops[op].kind)) {
    const auto first = head(fifos_[fifo_of(op)]);
    return first == op ? ""
                       : fmt::format("{} stands behind {} in its FIFO",
                                     position, to_text(plan_, first));
  }
  const auto dependency = unmet_dependency(op);
  const auto missing = to_text(plan_, dependency);
  if (plan_.ops[dependency].kind != plan_op_kind::receive)
    return fmt::format("{} waits for {} of rank {}", position, missing,
                       plan_.rank_of(dependency));
  const auto first = head(fifos_[fifo_of(dependency)]);
  if (first == dependency)
    return {};
  return fmt::format("{} waits for {}, which stands behind {} in its FIFO",
                     position, missing, to_text(plan_, first));
}

std::string replay::fifo_sentence(std::size_t index) const {
  const auto op = head(fifos_[index]);
  const auto& what = message_of(op);
  const auto peer = peer_of(op);
  const auto rank = plan_.rank_of(op);
  // A lane that needs this transfer is the most useful to name.
  const auto next = next_[static_cast<std::size_t>(rank)];
  const auto lane_needs_it =
    next < plan_.first_op[static_cast<std::size_t>(rank) + 1]
    && !is_transfer(plan_.ops[next].kind) && unmet_dependency(next) == op;
  const auto shown = lane_needs_it ? next : op;
  const auto position =
    fmt::format("rank {} at {}", rank, to_text(plan_, shown));
  const auto sends = plan_.ops[op].kind == plan_op_kind::send;
  const auto& edge = channel_of(op);
  if (sends && model_.kind == transport_kind::credited)
    return fmt::format("{} waits for a credit from rank {} to {}, held by {}",
                       position, edge.from_rank, edge.to_rank, held_by(op));
  const auto other = sends ? what.receive : what.send;
  auto text = fmt::format("{} waits for {} of rank {}", position,
                          to_text(plan_, other), peer);
  const auto first = head(fifos_[fifo_of(other)]);
  if (is_issued(other) && first != other)
    text += fmt::format(", which stands behind {} in its FIFO",
                        to_text(plan_, first));
  return text;
}

std::string replay::held_by(std::uint32_t send) const {
  std::string names;
  const auto channel = message_of(send).channel;
  for (const auto& what : plan_.messages)
    if (what.channel == channel && ended_[what.send] != 0
        && ended_[what.consumer] == 0)
      names += fmt::format("{}{}", names.empty() ? "" : ", ",
                           to_text(plan_, what.producer));
  return fmt::format("{}, which rank {} has not consumed", names,
                     peer_of(send));
}

}  // namespace troupe
