#include "troupe/schedules/lane_builder.hpp"

#include <fmt/ranges.h>

#include <numeric>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

std::vector<std::int32_t> even_groups(std::int32_t total, std::int32_t groups) {
  check_size("groups", groups, most_microbatches);
  std::vector<std::int32_t> sizes(slot(groups), total / groups);
  std::for_each_n(sizes.begin(), total % groups, [](auto& size) { ++size; });
  return sizes;
}

std::vector<std::int32_t> groups_of(std::int32_t total, std::int32_t size) {
  check_size("microbatches of a group", size, most_microbatches);
  std::vector<std::int32_t> sizes;
  for (auto left = total; left > 0; left -= size)
    sizes.push_back(std::min(left, size));
  return sizes;
}

lane_builder::lane_builder(const placement& placement,
                           std::int32_t microbatches, std::int32_t rank,
                           std::int32_t slices)
  : rank_{rank},
    ranks_{placement.ranks},
    microbatches_{microbatches},
    slices_{slices} {
  check_sizes(placement, microbatches, slices);
  const auto copies = placement.copies();
  for (std::int32_t copy = 0; copy < copies; ++copy)
    for (std::int32_t stage = 0; stage < placement.stages(); ++stage)
      if (const auto index = static_cast<std::int8_t>(copy);
          placement.rank_of(stage, index) == rank)
        chunks_.push_back({.stage = stage,
                           .copy = index,
                           .next_forward = microbatches * copy / copies,
                           .next_backward = microbatches * copy / copies,
                           .end = microbatches * (copy + 1) / copies});
  in_groups({microbatches});
}

void lane_builder::in_groups(const std::vector<std::int32_t>& sizes) {
  if (!lane_.empty())
    fail(error_code::invalid_argument,
         "rank {}: in_groups after the first op; call it at the start", rank_);
  if (std::ranges::any_of(sizes, [](auto size) { return size < 0; })
      || std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})
           != microbatches_)
    fail(error_code::invalid_argument,
         "rank {}: groups of {} microbatches; the sizes can't be negative, and "
         "must add up to {}",
         rank_, fmt::join(sizes, ", "), microbatches_);
  const auto total = chunks_.size() * slot(microbatches_) * slot(slices_);
  forwards_.clear();
  backwards_.clear();
  forwards_.reserve(total);
  backwards_.reserve(total);
  lane_.reserve(2 * total);
  std::int32_t start = 0;
  const auto add = [&](auto& order, auto& chunk, auto size, op_kind kind) {
    for (auto k = start; k < start + size; ++k)
      for (std::int32_t i = 0; i < slices_; ++i)
        order.push_back({.stage = chunk.stage,
                         .microbatch = k,
                         .slice = static_cast<std::int16_t>(
                           is_backward(kind) ? slices_ - 1 - i : i),
                         .copy = chunk.copy,
                         .kind = kind});
  };
  for (const auto size : sizes) {
    for (auto chunk = chunks_.begin(); chunk != chunks_.end(); ++chunk)
      add(forwards_, *chunk, size, op_kind::forward);
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk)
      add(backwards_, *chunk, size, op_kind::backward);
    start += size;
  }
}

void lane_builder::split_backwards(std::int32_t lag) {
  if (lag < 0)
    fail(error_code::invalid_argument,
         "rank {}: split_backwards with a lag of {}; give 0 or more", rank_,
         lag);
  split_ = true;
  lag_ = slot(lag);
}

void lane_builder::forward(op_count count) {
  for (; count.limit > 0 && next_forward_ < forwards_.size(); --count.limit)
    lane_.push_back(forwards_[next_forward_++]);
}

void lane_builder::backward(op_count count) {
  for (; count.limit > 0 && next_backward_ < backwards_.size(); --count.limit)
    append_backward(backwards_[next_backward_++]);
}

void lane_builder::weight_backward(op_count count) {
  for (; count.limit > 0 && next_due_ < due_.size(); --count.limit)
    lane_.push_back(due_[next_due_++]);
}

void lane_builder::repeat_one_forward_one_backward() {
  while (next_forward_ < forwards_.size()) {
    forward(first(1));
    backward(first(1));
  }
}

void lane_builder::forward(chunk which) {
  lane_.push_back(next_of(which, op_kind::forward));
}

void lane_builder::backward(chunk which) {
  append_backward(next_of(which, op_kind::backward));
}

void lane_builder::forward(chunk which, op_count count) {
  for (; count.limit > 0 && forwards_left(which) > 0; --count.limit)
    forward(which);
}

void lane_builder::backward(chunk which, op_count count) {
  const auto& state = chunks_[index_of(which)];
  for (; count.limit > 0 && state.next_backward < state.end; --count.limit)
    backward(which);
}

void lane_builder::input_backward(chunk which) {
  auto what = next_of(which, op_kind::input_backward);
  lane_.push_back(what);
  what.kind = op_kind::weight_backward;
  due_.push_back(what);
}

void lane_builder::overlap(chunk of_forward, chunk of_backward) {
  auto what = next_of(of_forward, op_kind::forward);
  what.overlaps_next = true;
  lane_.push_back(what);
  lane_.push_back(next_of(of_backward, op_kind::backward));
}

std::int32_t lane_builder::forwards_left(chunk which) const {
  const auto& state = chunks_[index_of(which)];
  return state.end - state.next_forward;
}

std::size_t lane_builder::index_of(chunk which) const {
  if (which.number < 0 || which.number >= stages_here())
    fail(error_code::invalid_argument,
         "rank {} has no chunk {}: it has {}, counted from 0", rank_,
         which.number, stages_here());
  return slot(which.number);
}

op lane_builder::next_of(chunk which, op_kind kind) {
  auto& state = chunks_[index_of(which)];
  auto& next = is_backward(kind) ? state.next_backward : state.next_forward;
  if (next >= state.end)
    fail(error_code::invalid_argument,
         "rank {}: chunk {} (stage {}) has no {} left: that of its last "
         "microbatch, {}, is in the lane",
         rank_, which.number, state.stage,
         is_backward(kind) ? "backward" : "forward", state.end - 1);
  return {.stage = state.stage,
          .microbatch = next++,
          .copy = state.copy,
          .kind = kind};
}

void lane_builder::append_backward(op what) {
  if (!split_)
    return lane_.push_back(what);
  what.kind = op_kind::input_backward;
  lane_.push_back(what);
  what.kind = op_kind::weight_backward;
  due_.push_back(what);
  if (due_.size() - next_due_ > lag_)
    weight_backward(first(1));
}

void lane_builder::place(op next) {
  lane_.push_back(next);
}

}  // namespace troupe
