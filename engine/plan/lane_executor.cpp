#include "troupe/engine/plan/lane_executor.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

namespace {

/// Ops that keep their order among themselves: transfers and copies of a
/// stream; collectives, which other replicas make in the same order; on the
/// compute stream those of a stage and kind, where all that add to gradients
/// are alike.
auto series_of(const plan_op& op) {
  const auto type = traits_of(op).type;
  if (type == op_class::transfer || type == op_class::copy)
    return std::tuple{type, static_cast<int>(op.stream), none, std::int8_t{0}};
  if (type == op_class::collective)
    return std::tuple{type, 0, none, std::int8_t{0}};
  const auto kind =
    frees_activation(op.kind) ? plan_op_kind::backward : op.kind;
  return std::tuple{type, static_cast<int>(kind), op.stage, op.copy};
}

/// Whether an op waits for ops of other ranks before it starts. A receive is
/// posted without its message, and a collective begins at each rank by itself.
bool waits_for_others(const plan_op& op) {
  return op.kind != plan_op_kind::receive
         && traits_of(op).type != op_class::collective;
}

}  // namespace

lane_executor::lane_executor(const plan& plan, std::int32_t rank,
                             lane_order order, const outside_waits& outside)
  : plan_{plan},
    order_{order},
    first_{plan.first_op[slot(rank)]},
    ops_(plan.lane(rank).size()),
    updates_wait_{outside.norm} {
  describe_ops();
  number_series();
  list_users();
  list_outside(outside);
  begin();
}

void lane_executor::describe_ops() {
  std::map<std::pair<std::int32_t, std::int8_t>, std::uint32_t> stages;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    const auto& op = plan_.ops[first_ + i];
    ops_[i].computes = op.stream == stream_kind::compute;
    ops_[i].leads =
      is_compute(op.kind) && op.kind != plan_op_kind::weight_backward;
    ops_[i].kept = static_cast<std::int8_t>(activations_added(op.kind));
    const auto number = static_cast<std::uint32_t>(stages.size());
    ops_[i].stage =
      stages.emplace(std::pair{op.stage, op.copy}, number).first->second;
    for (const auto input : plan_.dependencies_of(op))
      ops_[i].inputs += counts(op, input) ? 1 : 0;
  }
  kept_ = most_kept_ = kept_count(stages.size());
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    keep(kept_, i);
    most_kept_.all = std::max(most_kept_.all, kept_.all);
    auto& most = most_kept_.by_stage[ops_[i].stage];
    most = std::max(most, kept_.by_stage[ops_[i].stage]);
  }
}

bool lane_executor::counts(const plan_op& op, std::uint32_t input) const {
  return is_here(input) || waits_for_others(op);
}

void lane_executor::keep(kept_count& count, std::uint32_t index) const {
  count.all += ops_[index].kept;
  count.by_stage[ops_[index].stage] += ops_[index].kept;
}

void lane_executor::number_series() {
  using key = decltype(series_of(plan_op{}));
  std::map<key, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(numbers.size());
    const auto series =
      numbers.emplace(series_of(plan_.ops[first_ + i]), number).first->second;
    if (series == series_.size())
      series_.emplace_back();
    ops_[i].series = series;
    series_[series].push_back(i);
  }
}

void lane_executor::list_users() {
  for (std::uint32_t i = 0; i < ops_.size(); ++i)
    for (const auto input : plan_.dependencies_of(plan_.ops[first_ + i]))
      if (counts(plan_.ops[first_ + i], input))
        users_.emplace_back(input, i);
  std::ranges::sort(users_);
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    while (next < users_.size() && users_[next].first < first_ + i)
      ++next;
    ops_[i].first_user = next;
  }
}

void lane_executor::list_outside(const outside_waits& outside) {
  for (auto i = first_; i < first_ + ops_.size(); ++i) {
    const auto& op = plan_.ops[i];
    if (op.kind == plan_op_kind::forward && !outside.reads_data.empty()
        && outside.reads_data[slot(op.stage)]) {
      readers_.push_back(i);
      if (op.slice == 0)
        data_orders_[instance_of(op)].push_back(op.microbatch);
    }
    if (op.kind == plan_op_kind::update)
      updates_.push_back(i);
    if (op.kind == plan_op_kind::offload)
      offloaded_.insert(plan_.dependencies_of(op).front());
  }
  std::ranges::sort(readers_, {}, [this](std::uint32_t op) {
    return std::pair{plan_.ops[op].stage, plan_.ops[op].microbatch};
  });
}

void lane_executor::begin(std::span<const std::uint32_t> order) {
  fixed_order_ = order;
  started_ = 0;
  left_ = ops_.size();
  waits_.resize(left_);
  for (std::size_t i = 0; i < left_; ++i)
    waits_[i] = ops_[i].inputs;
  states_.assign(left_, state::waiting);
  heads_.assign(series_.size(), 0);
  cursor_ = 0;
  leader_ = 0;
  kept_.all = 0;
  std::ranges::fill(kept_.by_stage, 0);
  launching_ = computing_ = none;
  for (const auto op : readers_)
    hold(op);
  if (updates_wait_)
    for (const auto op : updates_)
      hold(op);
}

void lane_executor::hold(std::uint32_t op) {
  ++waits_.at(op - first_);
}

void lane_executor::release(std::uint32_t op) {
  input_ended(op - first_);
}

void lane_executor::data_arrived(std::int32_t stage, std::int32_t microbatch,
                                 std::int16_t slice) {
  const auto readers = std::ranges::equal_range(
    readers_, std::pair{stage, microbatch}, {}, [this](std::uint32_t op) {
      return std::pair{plan_.ops[op].stage, plan_.ops[op].microbatch};
    });
  for (const auto op : readers)
    if (slice == none || slice == plan_.ops[op].slice)
      release(op);
}

void lane_executor::norm_arrived() {
  if (updates_.empty())
    return;
  for (const auto norm : plan_.dependencies_of(plan_.ops[updates_.front()]))
    if (!is_here(norm))
      ended(norm);
  if (updates_wait_)
    for (const auto op : updates_)
      release(op);
}

void lane_executor::input_ended(std::uint32_t index) {
  if (waits_.at(index) == 0)
    fail(error_code::internal, "{} waits for a message that can never arrive",
         to_text(plan_, plan_.ops[first_ + index]));
  --waits_[index];
}

std::optional<std::uint32_t> lane_executor::next(bool compute) {
  if (launching())
    return std::nullopt;
  while (cursor_ < states_.size() && states_[cursor_] != state::waiting)
    ++cursor_;
  if (cursor_ == states_.size())
    return std::nullopt;
  const auto index = !fixed_order_.empty()          ? next_in_order(compute)
                     : order_ != lane_order::strict ? next_ready(compute)
                     : can_start(cursor_, compute)  ? std::optional{cursor_}
                                                    : std::nullopt;
  if (!index)
    return std::nullopt;
  start(*index);
  return first_ + *index;
}

std::optional<std::uint32_t> lane_executor::next_in_order(bool compute) const {
  const auto index = fixed_order_[started_] - first_;
  return can_start(index, compute) ? std::optional{index} : std::nullopt;
}

bool lane_executor::can_start(std::uint32_t index, bool compute) const {
  return waits_[index] == 0
         && !(ops_[index].computes && (!compute || computing_ != none));
}

/// The first in the lane that can start, of the first of each series.
std::optional<std::uint32_t> lane_executor::next_ready(bool compute) {
  leader_ = std::max(leader_, cursor_);
  while (leader_ < states_.size()
         && !(ops_[leader_].leads && states_[leader_] == state::waiting))
    ++leader_;
  std::optional<std::uint32_t> best;
  for (std::size_t i = 0; i < series_.size(); ++i) {
    if (heads_[i] == series_[i].size())
      continue;
    const auto index = series_[i][heads_[i]];
    if ((!best || index < *best) && can_start(index, compute) && in_order(index)
        && fits(index))
      best = index;
  }
  return best;
}

bool lane_executor::in_order(std::uint32_t index) const {
  return order_ == lane_order::any_ready || !ops_[index].leads
         || index == leader_;
}

/// Whether the lane with this op in front keeps no more activations at once
/// than it did, in all and of the op's stage: then what follows can run in the
/// lane's order.
bool lane_executor::fits(std::uint32_t index) const {
  if (ops_[index].kept <= 0)
    return true;
  const auto stage = ops_[index].stage;
  auto all = kept_.all + 1, of_stage = kept_.by_stage[stage] + 1;
  const auto few = [&] {
    return all <= most_kept_.all && of_stage <= most_kept_.by_stage[stage];
  };
  for (auto other = cursor_; few() && other < index; ++other)
    if (states_[other] == state::waiting) {
      all += ops_[other].kept;
      of_stage += ops_[other].stage == stage ? ops_[other].kept : 0;
    }
  return few();
}

void lane_executor::start(std::uint32_t index) {
  states_[index] = state::started;
  ++started_;
  ++heads_[ops_[index].series];
  keep(kept_, index);
  launching_ = index;
  if (ops_[index].computes)
    computing_ = index;
}

void lane_executor::launched(std::uint32_t op) {
  if (launching_ != op - first_)
    fail(error_code::internal, "{} was not being launched",
         to_text(plan_, plan_.ops[op]));
  launching_ = none;
}

void lane_executor::ended(std::uint32_t op) {
  if (!is_here(op)) {
    const auto first = std::ranges::lower_bound(
      users_, op, {}, [](const auto& entry) { return entry.first; });
    return tell_users(op, slot(first - users_.begin()));
  }
  const auto index = op - first_;
  if (states_[index] != state::started || launching_ == index)
    fail(error_code::internal, "{} has ended, and was not running",
         to_text(plan_, plan_.ops[op]));
  states_[index] = state::ended;
  --left_;
  if (computing_ == index)
    computing_ = none;
  tell_users(op, ops_[index].first_user);
}

void lane_executor::tell_users(std::uint32_t op, std::size_t first) {
  for (; first < users_.size() && users_[first].first == op; ++first)
    input_ended(users_[first].second);
}

std::optional<std::uint32_t> lane_executor::position() const {
  if (launching())
    return first_ + static_cast<std::uint32_t>(launching_);
  if (computing_ != none)
    return first_ + static_cast<std::uint32_t>(computing_);
  for (const auto wanted : {state::waiting, state::started}) {
    const auto found =
      std::find(states_.begin() + (wanted == state::waiting ? cursor_ : 0),
                states_.end(), wanted);
    if (found != states_.end())
      return first_ + static_cast<std::uint32_t>(found - states_.begin());
  }
  return std::nullopt;
}

}  // namespace troupe
