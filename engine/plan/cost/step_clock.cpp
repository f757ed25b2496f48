#include "troupe/engine/plan/cost/step_clock.hpp"

#include <algorithm>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/op_traits.hpp"

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
  const auto r = slot(rank);
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
  const auto& moved = plan_.messages[slot(what.message)];
  return plan_.channels[slot(moved.channel)].from_rank;
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
  const auto& sent = plan_.messages[slot(message)];
  const auto& on = plan_.channels[slot(sent.channel)];
  if (sent.sequence < on.credits)
    return true;
  const auto consumer = plan_.messages[slot(message - on.credits)].consumer;
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
  const auto& sent = plan_.messages[slot(plan_.ops[op].message)];
  auto ready = end[sent.producer];
  if (costs_.credits && !credit_there(plan_.ops[op].message, ready))
    return false;
  const auto moved = channels_.pass(sent.channel, ready);
  set(op, moved.leaves, moved.sent);
  set(sent.receive, moved.sent, moved.arrives);
  return true;
}

executor_clock::executor_clock(const plan& plan, const op_costs& costs,
                               lane_order order)
  : start(plan.ops.size()),
    end(plan.ops.size()),
    started(slot(plan.ranks())),
    plan_{plan},
    costs_{costs},
    channels_{plan, costs} {
  require_costs_of(plan, costs);
  if (costs.atomic_pairs)
    fail(error_code::invalid_argument,
         "with overtaking, ops start one at a time, so an overlapped pair "
         "can't be one op; simulate pairs in strict order");
  executors_.reserve(started.size());
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank)
    executors_.emplace_back(plan, rank, order);
}

void executor_clock::run_step(std::vector<double>& free_from) {
  begin(free_from);
  while (!events_.empty()) {
    now_ = events_.top().time;
    // Sends without a cost arrive at this very time.
    while (!events_.empty() && events_.top().time == now_) {
      happen_until_now();
      start_ops(false);
    }
    start_ops(true);
  }
  for (const auto& each : executors_)
    if (!each.finished())
      fail_stalled();
  free_from = last_end_;
}

void executor_clock::begin(const std::vector<double>& free_from) {
  const auto ranks = executors_.size();
  messages_.assign(plan_.messages.size(), {});
  ended_.assign(plan_.ops.size(), 0);
  collecting_.clear();
  begun_.assign(ranks, 0);
  woken_.assign(ranks, 0);
  last_end_ = free_from;
  free_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    free_[rank].fill(free_from[rank]);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    executors_[rank].begin();
    started[rank].clear();
    expect(free_from[rank], event_kind::rank_begins,
           static_cast<std::uint32_t>(rank));
  }
}

void executor_clock::expect(double time, event_kind kind, std::uint32_t which) {
  events_.push(
    {.time = time, .number = events_so_far_++, .kind = kind, .which = which});
}

void executor_clock::happen_until_now() {
  while (!events_.empty() && events_.top().time == now_) {
    const auto what = events_.top();
    events_.pop();
    happen(what);
  }
}

void executor_clock::happen(const event& what) {
  if (what.kind == event_kind::rank_begins) {
    begun_[what.which] = 1;
    wake(what.which);
  } else if (what.kind == event_kind::op_ends) {
    op_ended(what.which);
  } else {
    const auto& moved = plan_.messages[slot(plan_.ops[what.which].message)];
    auto& state = messages_[slot(plan_.ops[what.which].message)];
    state.arrived = true;
    if (state.posted)
      op_ended(moved.receive);
  }
}

void executor_clock::op_ended(std::uint32_t op) {
  const auto rank = slot(plan_.rank_of(op));
  const bool shared =
    plan_.global_norm && plan_.ops[op].kind == plan_op_kind::gradient_norm;
  for (std::size_t other = 0; shared && other < executors_.size(); ++other)
    if (other != rank) {
      executors_[other].ended(op);
      wake(other);
    }
  executors_[rank].ended(op);
  wake(rank);
  ended_[op] = 1;
  std::erase_if(collecting_, [this](std::uint32_t each) {
    const bool complete = all_inputs_ended(each);
    if (complete)
      run_op(each, slot(plan_.rank_of(each)));
    return complete;
  });
}

bool executor_clock::all_inputs_ended(std::uint32_t op) const {
  return std::ranges::all_of(
    plan_.dependencies_of(plan_.ops[op]),
    [this](std::uint32_t input) { return ended_[input] != 0; });
}

void executor_clock::wake(std::size_t rank) {
  if (begun_[rank] != 0 && std::exchange(woken_[rank], 1) == 0)
    to_wake_.push_back(rank);
}

// Transfers and collectives; or all ops, after which no rank is awake.
void executor_clock::start_ops(bool compute) {
  for (std::size_t i = 0; i < to_wake_.size(); ++i) {
    const auto rank = to_wake_[i];
    while (const auto op = executors_[rank].next(compute)) {
      executors_[rank].launched(*op);
      started[rank].push_back(*op);
      start_op(*op, rank);
    }
    if (compute)
      woken_[rank] = 0;
  }
  if (compute)
    to_wake_.clear();
}

void executor_clock::start_op(std::uint32_t op, std::size_t rank) {
  const auto& what = plan_.ops[op];
  if (is_transfer(what.kind))
    return start_transfer(op, rank);
  // A reduction over copies waits for its other ends.
  if (traits_of(what).type == op_class::collective && !all_inputs_ended(op))
    return collecting_.push_back(op);
  run_op(op, rank);
}

void executor_clock::run_op(std::uint32_t op, std::size_t rank) {
  const auto& what = plan_.ops[op];
  auto& free = free_[rank][slot(what.stream)];
  start[op] = std::max(now_, free);
  free = end[op] = start[op] + costs_.cost_of(op, what);
  last_end_[rank] = std::max(last_end_[rank], end[op]);
  expect(end[op], event_kind::op_ends, op);
}

void executor_clock::start_transfer(std::uint32_t op, std::size_t rank) {
  const auto number = slot(plan_.ops[op].message);
  const auto& moved = plan_.messages[number];
  if (plan_.ops[op].kind == plan_op_kind::receive) {
    messages_[number].posted = true;
    if (messages_[number].arrived)
      executors_[rank].ended(op);
    return;
  }
  const auto passage = channels_.pass(moved.channel, now_);
  start[op] = passage.leaves;
  start[moved.receive] = end[op] = passage.sent;
  end[moved.receive] = passage.arrives;
  executors_[rank].ended(op);
  expect(passage.arrives, event_kind::message_arrives, moved.receive);
}

}  // namespace troupe
