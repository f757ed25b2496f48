#include "troupe/engine/plan/check/replay.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "troupe/base/names.hpp"

namespace troupe {

replay::replay(const plan& plan, const transport_model& model)
  : plan_{plan},
    model_{model},
    turns_{plan.ranks()},
    next_{plan.first_op.begin(), plan.first_op.end() - 1},
    ended_(plan.ops.size(), 0),
    in_flight_(plan.channels.size(), 0) {
  make_fifos();
}

// Makes a FIFO at each end of a directed edge; or one at each end of a pair,
// which then serves both edges.
void replay::make_fifos() {
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::int32_t> numbers;
  const auto number = [&](const channel& edge, bool sender) -> std::int32_t& {
    const auto rank = sender ? edge.from_rank : edge.to_rank;
    const auto peer = sender ? edge.to_rank : edge.from_rank;
    return numbers[{rank, peer, sender && !model_.shared_fifo}];
  };
  for (const auto& edge : plan_.channels)
    for (const auto sender : {true, false})
      number(edge, sender) = none;
  std::int32_t next = 0;
  for (auto& each : numbers)
    each.second = next++;
  fifos_.resize(numbers.size());
  for (const auto& edge : plan_.channels) {
    from_fifo_.push_back(number(edge, true));
    to_fifo_.push_back(number(edge, false));
    const auto count = static_cast<std::uint32_t>(edge.messages);
    fifos_[slot(from_fifo_.back())].first += count;
    fifos_[slot(to_fifo_.back())].first += count;
  }
  std::uint32_t total = 0;
  for (auto& each : fifos_)
    total += std::exchange(each.first, total);
  transfers_.resize(total);
}

const message& replay::message_of(std::uint32_t op) const {
  return plan_.messages[slot(plan_.ops[op].message)];
}

const channel& replay::channel_of(std::uint32_t op) const {
  return plan_.channels[slot(message_of(op).channel)];
}

std::size_t replay::fifo_of(std::uint32_t op) const {
  const auto channel = slot(message_of(op).channel);
  const auto sends = plan_.ops[op].kind == plan_op_kind::send;
  return slot(sends ? from_fifo_[channel] : to_fifo_[channel]);
}

std::uint32_t replay::head(const fifo& fifo) const {
  return fifo.ended < fifo.issued ? transfers_[fifo.first + fifo.ended]
                                  : nothing;
}

bool replay::is_issued(std::uint32_t op) const {
  const auto& fifo = fifos_[fifo_of(op)];
  const auto begin = transfers_.begin() + fifo.first;
  return ended_[op] != 0
         || std::find(begin + fifo.ended, begin + fifo.issued, op)
              != begin + fifo.issued;
}

std::int32_t replay::peer_of(std::uint32_t op) const {
  const auto& edge = channel_of(op);
  return plan_.ops[op].kind == plan_op_kind::send ? edge.to_rank
                                                  : edge.from_rank;
}

bool replay::stands_at(plan_op_kind kind) const {
  return model_.kind == transport_kind::rendezvous
         || (model_.kind == transport_kind::credited
             && kind == plan_op_kind::send);
}

void replay::run() {
  while (!turns_.empty())
    run_lane(turns_.pop_last());
}

void replay::run_lane(std::int32_t rank) {
  auto& next = next_[slot(rank)];
  const auto end = plan_.first_op[slot(rank) + 1];
  moved_ = false;
  for (; next < end && attempt(next); ++next)
    moved_ = true;
  if (moved_)
    turns_.progressed(rank);
  if (next < end)
    turns_.wait(rank, blocker(next));
}

bool replay::attempt(std::uint32_t op) {
  if (!is_transfer(plan_.ops[op].kind))
    return attempt_compute(op);
  const auto index = fifo_of(op);
  auto& fifo = fifos_[index];
  const auto last = fifo.first + fifo.issued;
  const auto issued =
    ended_[op] != 0 || (fifo.issued > 0 && transfers_[last - 1] == op);
  if (!issued) {
    transfers_[last] = op;
    ++fifo.issued;
    pump(index);
  }
  return ended_[op] != 0 || !stands_at(plan_.ops[op].kind);
}

std::uint32_t replay::unmet_dependency(std::uint32_t op) const {
  for (const auto dependency : plan_.dependencies_of(plan_.ops[op]))
    if (ended_[dependency] == 0)
      return dependency;
  return nothing;
}

bool replay::attempt_compute(std::uint32_t op) {
  if (unmet_dependency(op) != nothing)
    return false;
  ended_[op] = 1;
  if (model_.kind == transport_kind::credited && is_compute(plan_.ops[op].kind))
    for (const auto dependency : plan_.dependencies_of(plan_.ops[op]))
      consume(plan_.ops[dependency].message);
  return true;
}

// The op that ended has consumed its message: returns a credit to the channel.
void replay::consume(std::int32_t message) {
  if (message == none)
    return;
  const auto channel = slot(plan_.messages[slot(message)].channel);
  --in_flight_[channel];
  pump(slot(from_fifo_[channel]));
}

void replay::pump(std::size_t fifo_index) {
  to_pump_.push_back(fifo_index);
  while (!to_pump_.empty()) {
    auto& fifo = fifos_[to_pump_.back()];
    to_pump_.pop_back();
    while (end_first(fifo)) {
    }
  }
}

// Ends the first transfer of a FIFO if it can take place.
bool replay::end_first(fifo& fifo) {
  const auto op = head(fifo);
  if (op == nothing)
    return false;
  const auto& what = message_of(op);
  if (model_.kind == transport_kind::rendezvous)
    return meet(op, what);
  const auto channel = slot(what.channel);
  if (plan_.ops[op].kind == plan_op_kind::receive) {
    if (ended_[what.send] == 0)
      return false;
  } else {
    if (model_.kind == transport_kind::credited) {
      if (in_flight_[channel] >= plan_.channels[channel].credits)
        return false;
      ++in_flight_[channel];
    }
    to_pump_.push_back(slot(to_fifo_[channel]));
  }
  moved_ = true;
  ended_[op] = 1;
  ++fifo.ended;
  return true;
}

// Rendezvous: both ends are the first of their FIFOs.
bool replay::meet(std::uint32_t op, const message& what) {
  const auto own_fifo = fifo_of(op);
  const auto sends = op == what.send;
  const auto other_fifo = fifo_of(sends ? what.receive : what.send);
  if (head(fifos_[other_fifo]) != (sends ? what.receive : what.send))
    return false;
  moved_ = true;
  ended_[what.send] = ended_[what.receive] = 1;
  ++fifos_[own_fifo].ended;
  ++fifos_[other_fifo].ended;
  to_pump_.push_back(other_fifo);
  return true;
}

// The rank whose next progress may unblock `op`, which a lane waits at.
std::int32_t replay::blocker(std::uint32_t op) const {
  if (is_transfer(plan_.ops[op].kind))
    return peer_of(op);
  const auto dependency = unmet_dependency(op);
  return is_transfer(plan_.ops[dependency].kind) ? peer_of(dependency)
                                                 : plan_.rank_of(dependency);
}

bool replay::finished() const {
  return std::equal(next_.begin(), next_.end(), plan_.first_op.begin() + 1);
}

namespace {

constexpr std::string_view names[]{"buffered", "credited", "rendezvous"};

}  // namespace

verdict verify(const plan& plan, const transport_model& model) {
  replay run{plan, model};
  run.run();
  if (run.finished())
    return {};
  return {.progress = false,
          .cycle = run.explain(),
          .stands_at = run.positions(),
          .posted = run.posted()};
}

std::string verdict::text() const {
  if (progress)
    return "makes progress, as every op completes";
  std::string sentences;
  for (const auto& each : cycle)
    sentences += (sentences.empty() ? "" : "; ") + each.text;
  return "deadlock: " + sentences;
}

transport_kind parse_transport(std::string_view name) {
  return parse_named<transport_kind>(name, names, "transport");
}

}  // namespace troupe
