#include "troupe/engine/plan/cost/step_clock.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr double not_yet = -1;

}  // namespace

void fail_stalled() {
  fail(error_code::deadlock,
       "the plan stalls, so it has no duration; `verify` shows the cycle");
}

step_clock::step_clock(const plan& plan, const op_costs& costs)
  : start(plan.ops.size()),
    end(plan.ops.size()),
    plan_{plan},
    costs_{costs},
    channels_{plan, costs} {
  require_costs_of(plan, costs);
}

void step_clock::run_step(std::vector<double>& free_from) {
  std::fill(end.begin(), end.end(), not_yet);
  next_.assign(plan_.first_op.begin(), plan_.first_op.end() - 1);
  free_.resize(free_from.size());
  for (std::size_t rank = 0; rank < free_from.size(); ++rank)
    free_[rank].fill(free_from[rank]);
  turn_queue turns{plan_.ranks()};
  while (!turns.empty())
    run_lane(turns.pop_last(), turns);
  if (!std::equal(next_.begin(), next_.end(), plan_.first_op.begin() + 1))
    fail_stalled();
  for (std::size_t rank = 0; rank < free_from.size(); ++rank)
    free_from[rank] = std::ranges::max(free_[rank]);
}

void step_clock::run_lane(std::int32_t rank, turn_queue& turns) {
  const auto r = static_cast<std::size_t>(rank);
  const auto stop = plan_.first_op[r + 1];
  auto& next = next_[r];
  const auto first = next;
  while (next < stop && attempt(next, r))
    ++next;
  if (next != first)
    turns.progressed(rank);
  if (next < stop)
    turns.wait(rank, blocker_);
}

// Computes when all inputs of an op are available; otherwise names the rank to
// wait for.
bool step_clock::inputs_there(std::uint32_t op, double& ready) {
  for (const auto input : plan_.dependencies_of(plan_.ops[op])) {
    if (end[input] == not_yet) {
      blocker_ = rank_that_gives(input);
      return false;
    }
    ready = std::max(ready, end[input]);
  }
  return true;
}

std::int32_t step_clock::rank_that_gives(std::uint32_t input) const {
  const auto& what = plan_.ops[input];
  if (what.kind != plan_op_kind::receive)
    return plan_.rank_of(input);
  const auto& moved = plan_.messages[static_cast<std::size_t>(what.message)];
  return plan_.channels[static_cast<std::size_t>(moved.channel)].from_rank;
}

void step_clock::set(std::uint32_t op, double start_time, double end_time) {
  start[op] = start_time;
  end[op] = end_time;
}

bool step_clock::attempt(std::uint32_t op, std::size_t rank) {
  const auto& what = plan_.ops[op];
  if (is_transfer(what.kind))
    return attempt_transfer(op);
  if (end[op] != not_yet)
    return true;
  if (what.overlaps_next && costs_.atomic_pairs)
    return attempt_pair(op, rank);
  auto& clock = clock_of(what, rank);
  double ready = clock;
  if (!inputs_there(op, ready))
    return false;
  clock = ready + costs_.cost_of(op, what);
  set(op, ready, clock);
  return true;
}

bool step_clock::attempt_pair(std::uint32_t op, std::size_t rank) {
  auto second = op + 1;
  while (!is_compute(plan_.ops[second].kind))
    ++second;
  auto& clock = clock_of(plan_.ops[op], rank);
  double ready = clock;
  if (!inputs_there(op, ready) || !inputs_there(second, ready))
    return false;
  clock = ready + costs_.cost_of(op, plan_.ops[op])
          + costs_.cost_of(second, plan_.ops[second]);
  set(op, ready, clock);
  set(second, ready, clock);
  return true;
}

// The message that gives its credit back must have been consumed.
bool step_clock::credit_there(std::int32_t message, double& left) {
  const auto& sent = plan_.messages[static_cast<std::size_t>(message)];
  const auto& on = plan_.channels[static_cast<std::size_t>(sent.channel)];
  if (sent.sequence < on.credits)
    return true;
  const auto consumer =
    plan_.messages[static_cast<std::size_t>(message - on.credits)].consumer;
  if (end[consumer] == not_yet) {
    blocker_ = on.to_rank;
    return false;
  }
  left = std::max(left, start[consumer]);
  return true;
}

// A send times its receive too, which the other rank passes by.
bool step_clock::attempt_transfer(std::uint32_t op) {
  if (plan_.ops[op].kind == plan_op_kind::receive)
    return true;
  const auto& sent =
    plan_.messages[static_cast<std::size_t>(plan_.ops[op].message)];
  auto ready = end[sent.producer];
  if (costs_.credits && !credit_there(plan_.ops[op].message, ready))
    return false;
  const auto moved = channels_.pass(sent.channel, ready);
  set(op, moved.leaves, moved.sent);
  set(sent.receive, moved.sent, moved.arrives);
  return true;
}

}  // namespace troupe
