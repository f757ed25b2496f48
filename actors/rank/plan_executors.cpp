#include "troupe/actors/rank/plan_executors.hpp"

#include <algorithm>

namespace troupe {

executed_plan::executed_plan(std::shared_ptr<const plan> of,
                             const rank_setup& setup)
  : of_(std::move(of)),
    rank_(setup.rank),
    waits_for_norm_(setup.waits_for_norm),
    executor_(*of_, setup.rank, setup.order) {
  const auto r = static_cast<std::size_t>(rank_);
  for (auto at = of_->first_op[r]; at < of_->first_op[r + 1]; ++at) {
    const auto& op = of_->ops[at];
    if (op.kind == plan_op_kind::forward
        && setup.needs_data[static_cast<std::size_t>(op.stage)])
      readers_.push_back(at);
    if (op.kind == plan_op_kind::update)
      updates_.push_back(at);
  }
  std::ranges::sort(readers_, {}, [this](std::uint32_t at) {
    return std::pair{of_->ops[at].stage, of_->ops[at].microbatch};
  });
}

void executed_plan::begin() {
  executor_.begin();
  for (const auto op : readers_)
    executor_.hold(op);
  if (waits_for_norm_)
    for (const auto op : updates_)
      executor_.hold(op);
}

void executed_plan::data_arrived(std::int32_t stage, std::int32_t microbatch) {
  const auto readers = std::ranges::equal_range(
    readers_, std::pair{stage, microbatch}, {}, [this](std::uint32_t at) {
      return std::pair{of_->ops[at].stage, of_->ops[at].microbatch};
    });
  for (const auto op : readers)
    executor_.release(op);
}

void executed_plan::norm_arrived() {
  if (updates_.empty())
    return;
  for (const auto norm : of_->dependencies_of(of_->ops[updates_.front()]))
    if (of_->rank_of(norm) != rank_)
      executor_.ended(norm);
  if (waits_for_norm_)
    for (const auto op : updates_)
      executor_.release(op);
}

executed_plan& plan_executors::begin(const std::shared_ptr<const plan>& of) {
  constexpr std::size_t most = 4;
  const auto known =
    std::ranges::find_if(known_, [&](const auto& e) { return e->of() == of; });
  if (known != known_.end()) {
    std::rotate(known_.begin(), known, known + 1);
  } else {
    if (known_.size() == most)
      known_.pop_back();
    known_.insert(known_.begin(), std::make_unique<executed_plan>(of, setup_));
  }
  known_.front()->begin();
  return *known_.front();
}

}  // namespace troupe
