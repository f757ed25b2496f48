#include "troupe/schedules/lane_builder.hpp"

#include "troupe/base/error.hpp"

namespace troupe {

std::vector<std::int32_t> even_groups(std::int32_t total, std::int32_t groups) {
  std::vector<std::int32_t> sizes(static_cast<std::size_t>(groups),
                                  total / groups);
  std::for_each_n(sizes.begin(), total % groups, [](auto& size) { ++size; });
  return sizes;
}

std::vector<std::int32_t> groups_of(std::int32_t total, std::int32_t size) {
  std::vector<std::int32_t> sizes;
  for (auto left = total; left > 0; left -= size)
    sizes.push_back(std::min(left, size));
  return sizes;
}

lane_builder::lane_builder(const placement& placement,
                           std::int32_t microbatches, std::int32_t rank)
  : rank_{rank}, ranks_{placement.ranks}, microbatches_{microbatches} {
  for (std::int32_t stage = 0; stage < placement.stages(); ++stage)
    if (placement.rank_of(stage) == rank)
      stages_.push_back(stage);
  in_groups({microbatches});
}

void lane_builder::in_groups(const std::vector<std::int32_t>& sizes) {
  if (!lane_.empty())
    fail(error_code::invalid_argument,
         "rank {}: in_groups after the first op; call it at the start", rank_);
  const auto total = stages_.size() * static_cast<std::size_t>(microbatches_);
  forwards_.clear();
  backwards_.clear();
  forwards_.reserve(total);
  backwards_.reserve(total);
  lane_.reserve(2 * total);
  std::int32_t start = 0;
  const auto add = [&](auto& order, auto stage, auto size, op_kind kind) {
    for (auto k = start; k < start + size; ++k)
      order.push_back({.stage = stage, .microbatch = k, .kind = kind});
  };
  for (const auto size : sizes) {
    for (auto stage = stages_.begin(); stage != stages_.end(); ++stage)
      add(forwards_, *stage, size, op_kind::forward);
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage)
      add(backwards_, *stage, size, op_kind::backward);
    start += size;
  }
}

void lane_builder::append(const std::vector<op>& order, std::size_t& next,
                          op_count count) {
  const auto limit = static_cast<std::size_t>(std::max(count.limit, 0));
  const auto end = next + std::min(limit, order.size() - next);
  lane_.insert(lane_.end(), order.begin() + static_cast<std::ptrdiff_t>(next),
               order.begin() + static_cast<std::ptrdiff_t>(end));
  next = end;
}

void lane_builder::forward(op_count count) {
  append(forwards_, next_forward_, count);
}

void lane_builder::backward(op_count count) {
  append(backwards_, next_backward_, count);
}

void lane_builder::repeat_one_forward_one_backward() {
  while (next_forward_ < forwards_.size()) {
    lane_.push_back(forwards_[next_forward_++]);
    lane_.push_back(backwards_[next_backward_++]);
  }
}

void lane_builder::place(op next) {
  lane_.push_back(next);
}

}  // namespace troupe
