#include "executor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/engine/membership/choose_hosting.hpp"
#include "troupe/engine/membership/step_commit.hpp"

namespace troupe::simulated {

using namespace membership;

executor::executor(const scenario& of, network& net, checker& check,
                   shared_disk& disk, int self)
  : of_(of),
    shape_(of.authority.shape),
    net_(net),
    check_(check),
    disk_(disk),
    self_(self),
    states_(static_cast<std::size_t>(shape_.ranks())) {}

std::vector<held_copy> executor::copies() const {
  std::vector<held_copy> held;
  for (std::int32_t rank = 0; rank < shape_.ranks(); ++rank) {
    const auto& state = states_[static_cast<std::size_t>(rank)];
    if (state.is_held)
      held.push_back({rank, state.step, copy_kind::applied});
    if (state.is_held && state.is_prepared)
      held.push_back({rank, state.step + 1, copy_kind::prepared});
  }
  for (const auto& copy : stored_)
    held.push_back({copy.rank, copy.step, copy_kind::snapshot});
  return held;
}

// ------------------------------------------------------- to a new epoch

void executor::prepare(const membership::epoch& next) {
  epoch_ = next;
  is_running_ = is_computed_ = is_at_rest_ = false;
  step_ = epoch_.from_step;
  snapshots_.clear();
  unstored_.clear();
  heard_.clear();
  hosted_.clear();
  missing_.clear();
  reads_checkpoint_ = false;
  waits_loaded_ = true;
  for (std::int32_t rank = 0; rank < shape_.ranks(); ++rank)
    settle(at(rank), rank);
  for (std::int32_t rank = 0; rank < shape_.ranks(); ++rank) {
    if (epoch_.hosting[static_cast<std::size_t>(rank)] != self_)
      continue;
    hosted_.push_back(rank);
    if (const auto hash = find(rank, epoch_.from_step))
      load(rank, *hash);
    else
      missing_.push_back(rank);
  }
  load_again();
}

/// Rolls a state forward or back to the epoch's first, if it can.
void executor::settle(own_state& state, std::int32_t rank) {
  if (!state.is_held)
    return;
  if (state.is_prepared && state.step + 1 == epoch_.from_step) {
    state.hash = state.next;
    ++state.step;
    check_.applied(self_, rank, state.step, state.hash);
  }
  state.is_prepared = false;
  if (state.step == epoch_.from_step)
    return;
  if (const auto hash = find(rank, epoch_.from_step))
    load(rank, *hash);
}

std::optional<std::uint64_t> executor::find(std::int32_t rank,
                                            std::int64_t step) const {
  const auto is_same = [&](std::int32_t other) {
    return shape_.state_of(other) == shape_.state_of(rank);
  };
  for (std::int32_t other = 0; other < shape_.ranks(); ++other) {
    const auto& state = states_[static_cast<std::size_t>(other)];
    if (state.is_held && state.step == step && is_same(other))
      return state.hash;
  }
  for (const auto& copy : stored_)
    if (copy.step == step && is_same(copy.rank))
      return copy.hash;
  return std::nullopt;
}

void executor::load(std::int32_t rank, std::uint64_t hash) {
  at(rank) = {true, false, epoch_.from_step, hash, 0};
}

void executor::load_again() {
  if (is_at_rest_)
    return;
  for (const auto rank : missing_)
    request(rank);
  if (!missing_.empty())
    net_.after(std::chrono::milliseconds(200), self_,
               wake{wake_kind::load_again, epoch_.number, 0});
}

void executor::request(std::int32_t rank) {
  const auto giver = epoch_.givers[static_cast<std::size_t>(rank)];
  if (giver == self_)
    check_.violated(
      fmt::format("member {} is to give rank {} of step {} to "
                  "itself, and has it not",
                  self_, rank, epoch_.from_step));
  else if (giver != no_member)
    net_.send(self_, static_cast<int>(giver),
              state_request{epoch_.number, rank});
  else if (!std::exchange(reads_checkpoint_, true))
    net_.after(std::chrono::milliseconds(50), self_,
               wake{wake_kind::checkpoint_read, epoch_.number, 0});
}

void executor::read_checkpoint() {
  if (is_at_rest_)
    return;
  std::erase_if(missing_, [&](std::int32_t rank) {
    if (epoch_.givers[static_cast<std::size_t>(rank)] != no_member)
      return false;
    load(rank, epoch_.from_step == 0
                 ? check_.first_state(rank)
                 : disk_.read(epoch_.from_step, shape_.state_of(rank)));
    return true;
  });
}

void executor::receive(int from, const state_request& wanted) {
  if (wanted.epoch != epoch_.number || is_running_ || is_at_rest_)
    return;
  const auto hash = find(wanted.rank, epoch_.from_step);
  if (!hash)
    return check_.violated(
      fmt::format("member {} is to give rank {} of step {}, and has it not",
                  self_, wanted.rank, epoch_.from_step));
  net_.send(self_, from,
            state_reply{epoch_.number, wanted.rank, epoch_.from_step, *hash});
}

void executor::receive(int, const state_reply& reply) {
  if (reply.epoch == epoch_.number && !is_at_rest_
      && std::erase(missing_, reply.rank) > 0)
    load(reply.rank, reply.hash);
}

bool executor::take_loaded() {
  return missing_.empty() && std::exchange(waits_loaded_, false);
}

void executor::begin() {
  for (std::int32_t rank = 0; rank < shape_.ranks(); ++rank)
    if (!std::ranges::binary_search(hosted_, rank))
      at(rank) = {};
  peers_ = hosts_of(epoch_.hosting);
  std::erase(peers_, self_);
  is_running_ = true;
  if (of_.snapshot_every > 0)
    take_snapshots();
  start_step();
}

// ------------------------------------------------------------- a step

void executor::start_step() {
  std::erase_if(heard_,
                [&](const heard_data& each) { return each.step <= step_; });
  ++step_;
  is_computed_ = false;
  if (!hosted_.empty())
    net_.after(of_.step_time, self_,
               wake{wake_kind::computed, epoch_.number, step_});
}

bool executor::is_due(const wake& computed) const {
  return is_running_ && computed.epoch == epoch_.number
         && computed.number == step_ && !is_computed_;
}

void executor::compute() {
  is_computed_ = true;
  std::uint64_t sum = 0;
  for (const auto rank : hosted_)
    sum += part_of_step(rank, at(rank).hash);
  heard_.push_back({step_, self_, sum});
  for (const auto peer : peers_)
    net_.send(self_, static_cast<int>(peer),
              step_data{epoch_.number, step_, sum});
}

void executor::receive(int from, const step_data& data) {
  if (data.epoch != epoch_.number || hosted_.empty() || data.step < step_)
    return;
  const auto is_same = [&](const heard_data& each) {
    return each.step == data.step && each.from == from;
  };
  if (std::ranges::none_of(heard_, is_same))
    heard_.push_back({data.step, from, data.sum});
}

bool executor::take_prepared() {
  if (!is_running_ || !is_computed_ || at(hosted_[0]).is_prepared)
    return false;
  std::uint64_t sum = 0;
  std::size_t parts = 0;
  for (const auto& each : heard_)
    if (each.step == step_) {
      sum += each.sum;
      ++parts;
    }
  if (parts <= peers_.size())
    return false;
  for (const auto rank : hosted_) {
    auto& state = at(rank);
    state.is_prepared = true;
    state.next = next_state(state.hash, step_, sum);
  }
  check_.prepared(self_, epoch_.number, step_);
  return true;
}

void executor::apply(const step_decision& decision) {
  std::erase_if(stored_, [&](const stored_copy& copy) {
    return copy.step < decision.keep_from;
  });
  if (hosted_.empty())
    return;
  if (decision.step != step_ || !at(hosted_[0]).is_prepared)
    return check_.violated(
      fmt::format("member {} applies step {}, which is not prepared", self_,
                  decision.step));
  for (const auto rank : hosted_) {
    auto& state = at(rank);
    state = {true, false, step_, state.next, 0};
    check_.applied(self_, rank, step_, state.hash);
    if (of_.checkpoint_every > 0 && step_ % of_.checkpoint_every == 0)
      disk_.write(step_, shape_.state_of(rank), state.hash);
  }
  check_.applied_step(self_, epoch_.number, step_);
  if (of_.snapshot_every > 0 && step_ % of_.snapshot_every == 0)
    take_snapshots();
  start_step();
}

// -------------------------------------------------------- snapshots

void executor::take_snapshots() {
  snapshots_.push_back(step_);
  for (const auto rank : hosted_) {
    const snapshot_copy copy{epoch_.number, rank, step_, at(rank).hash};
    receive(self_, copy);
    if (const auto to = neighbour_of(shape_, epoch_, rank); to != no_member) {
      unstored_.emplace_back(rank, step_);
      net_.send(self_, static_cast<int>(to), copy);
    }
  }
}

bool executor::has_stored(std::int32_t rank, std::int64_t step) const {
  return std::ranges::any_of(stored_, [&](const stored_copy& each) {
    return each.rank == rank && each.step == step;
  });
}

void executor::receive(int from, const snapshot_copy& copy) {
  if (copy.epoch != epoch_.number || is_at_rest_)
    return;
  if (!has_stored(copy.rank, copy.step))
    stored_.push_back({copy.rank, copy.step, copy.hash});
  if (from != self_)
    net_.send(self_, from, snapshot_stored{copy.epoch, copy.rank, copy.step});
}

void executor::receive(int, const snapshot_stored& stored) {
  if (stored.epoch == epoch_.number)
    std::erase(unstored_, std::pair(stored.rank, stored.step));
}

std::int64_t executor::stored_step() const {
  std::int64_t newest = -1;
  for (const auto step : snapshots_)
    if (std::ranges::none_of(
          unstored_, [&](const auto& each) { return each.second <= step; }))
      newest = step;
  return newest;
}

}  // namespace troupe::simulated
