#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Describes where op `index` of a rank's lane is, for error messages. Rules
/// about missing ops pass the index one past the lane's last op.
using op_locator =
  std::function<std::string(std::int32_t rank, std::size_t index)>;

/// Throws `error` (invalid_argument) unless a size is in 1..most.
void check_size(std::string_view what, std::int32_t value, std::int32_t most);
/// Throws `error` (invalid_argument) unless all sizes are in range, and each
/// copy of a stage has one of the ranks.
void check_sizes(const placement& placement, std::int32_t microbatches,
                 std::int32_t slices);

/// Checks that the lanes are one whole step: every (stage, microbatch, slice)
/// has one F and then one B, or one I and later one W, all on the rank of the
/// stage, and each microbatch one copy of the stages; or that there are
/// forwards only. Throws `error` (invalid_schedule) that names rule, rank and
/// op, or `whole` where it is about the whole. Deadlocks (cycles of waiting
/// lanes) are detected by `compile` and `verify`. With updates within a step
/// microbatches ascend, and run whole, by full backwards, through one copy of
/// the stages.
void validate(const schedule& lanes);
void validate(const schedule& lanes, std::string_view whole,
              const op_locator& locate);

/// Whether any lane holds a backward.
bool is_training(const schedule& lanes);

/// Whether every stage runs the microbatches of each kind of op (B and W
/// together) in ascending order, slices of a backward descending, so that
/// gradients are summed in the order of a plain loop: the first op that comes
/// too late, or none.
std::optional<op> first_out_of_order(const schedule& lanes);

/// By microbatch: the copy of the stages that it runs through.
std::vector<std::int8_t> copies_taken(const schedule& lanes);

/// Updates of a stage in a step of a schedule or plan.
template <class Schedule>
std::int32_t updates_of(const Schedule& order) {
  const auto every = order.update.every;
  return every == 0 ? 1 : (order.microbatches - 1) / every + 1;
}

/// The update that a microbatch's gradients are part of, from 0.
template <class Schedule>
std::int32_t update_number(const Schedule& order, std::int32_t microbatch) {
  return order.update.every == 0 ? 0 : microbatch / order.update.every;
}

/// The last microbatch of an update.
template <class Schedule>
std::int32_t last_of_update(const Schedule& order, std::int32_t update) {
  return update + 1 == updates_of(order)
           ? order.microbatches - 1
           : (update + 1) * order.update.every - 1;
}

/// Number of (stage, microbatch, slice) triples of a schedule or plan; if it
/// overflows, a number larger than any file's ops.
template <class Schedule>
std::size_t slot_count(const Schedule& order) {
  std::size_t count = slot(order.microbatches) * slot(order.slices);
  if (__builtin_mul_overflow(count, slot(order.stages()), &count))
    count = SIZE_MAX;
  return count;
}

/// The place of an op's triple in arrays of `slot_count`.
template <class Schedule, class Op>
std::size_t op_slot(const Schedule& order, const Op& op) {
  return (slot(op.stage) * slot(order.microbatches) + slot(op.microbatch))
           * slot(order.slices)
         + slot(op.slice);
}

}  // namespace troupe
