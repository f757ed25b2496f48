#include "troupe/actors/step/prepared_plan.hpp"

#include <algorithm>
#include <utility>

#include "troupe/engine/plan/text/plan_text.hpp"

namespace troupe {

namespace {

plan_traits traits_of(const plan& what) {
  const auto splits =
    std::ranges::count(what.ops, plan_op_kind::input_backward, &plan_op::kind);
  return {splits > 0, what.slices, what.microbatches,
          microbatches_of_update(what)};
}

}  // namespace

prepared_plan::prepared_plan(plan_pointer what, std::int32_t data_ranks,
                             bool hashes)
  : plan_(std::move(what)),
    traits_(traits_of(*plan_)),
    hash_(hashes ? content_hash(*plan_) : 0),
    executors_(static_cast<std::size_t>(data_ranks * plan_->ranks())) {}

lane_executor& prepared_plan::executor(std::int32_t data_rank,
                                       std::int32_t rank, lane_order order,
                                       const outside_waits& outside) {
  auto& own =
    executors_.at(static_cast<std::size_t>(data_rank * plan_->ranks() + rank));
  if (!own)
    own = std::make_unique<lane_executor>(*plan_, rank, order, outside);
  return *own;
}

std::shared_ptr<prepared_plan> prepared_plans::prepared(
  const plan_pointer& plan) {
  std::erase_if(all_,
                [](const auto& each) { return each->plan().use_count() == 1; });
  const auto place = std::ranges::find_if(
    all_, [&](const auto& each) { return each->plan() == plan; });
  if (place != all_.end())
    return *place;
  return all_.emplace_back(
    std::make_shared<prepared_plan>(plan, data_ranks_, hashes_));
}

}  // namespace troupe
