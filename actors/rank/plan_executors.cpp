#include "troupe/actors/rank/plan_executors.hpp"

#include <algorithm>

namespace troupe {

executed_plan::executed_plan(std::shared_ptr<const troupe::plan> plan,
                             const rank_setup& setup)
  : plan_(std::move(plan)),
    rank_(setup.rank),
    waits_for_norm_(setup.waits_for_norm),
    executor_(*plan_, setup.rank, setup.order) {
  const auto r = static_cast<std::size_t>(rank_);
  for (auto place = plan_->first_op[r]; place < plan_->first_op[r + 1];
       ++place) {
    const auto& op = plan_->ops[place];
    if (op.kind == plan_op_kind::forward
        && setup.needs_data[static_cast<std::size_t>(op.stage)]) {
      readers_.push_back(place);
      if (op.slice == 0)
        data_orders_[instance_of(op)].push_back(op.microbatch);
    }
    if (op.kind == plan_op_kind::update)
      updates_.push_back(place);
    if (op.kind == plan_op_kind::offload)
      offloaded_.insert(plan_->dependencies_of(op).front());
  }
  std::ranges::sort(readers_, {}, [this](std::uint32_t index) {
    return std::pair{plan_->ops[index].stage, plan_->ops[index].microbatch};
  });
}

void executed_plan::begin(std::span<const std::uint32_t> order) {
  executor_.begin(order);
  for (const auto op : readers_)
    executor_.hold(op);
  if (waits_for_norm_)
    for (const auto op : updates_)
      executor_.hold(op);
}

void executed_plan::data_arrived(std::int32_t stage, std::int32_t microbatch,
                                 std::int16_t slice) {
  const auto readers = std::ranges::equal_range(
    readers_, std::pair{stage, microbatch}, {}, [this](std::uint32_t index) {
      return std::pair{plan_->ops[index].stage, plan_->ops[index].microbatch};
    });
  for (const auto op : readers)
    if (slice == loaded_data::all_slices || slice == plan_->ops[op].slice)
      executor_.release(op);
}

void executed_plan::norm_arrived() {
  if (updates_.empty())
    return;
  for (const auto norm : plan_->dependencies_of(plan_->ops[updates_.front()]))
    if (plan_->rank_of(norm) != rank_)
      executor_.ended(norm);
  if (waits_for_norm_)
    for (const auto op : updates_)
      executor_.release(op);
}

executed_plan& plan_executors::begin(const step_context& step) {
  const auto& plan = step.plan;
  constexpr std::size_t most = 4;
  const auto known = std::ranges::find_if(
    known_, [&](const auto& e) { return e->plan() == plan; });
  if (known != known_.end()) {
    std::rotate(known_.begin(), known, known + 1);
  } else {
    if (known_.size() == most)
      known_.pop_back();
    known_.insert(known_.begin(),
                  std::make_unique<executed_plan>(plan, setup_));
  }
  std::span<const std::uint32_t> order;
  if (step.orders)
    order = step.orders->at(
      static_cast<std::size_t>(setup_.data_rank * plan->ranks() + setup_.rank));
  known_.front()->begin(order);
  return *known_.front();
}

}  // namespace troupe
