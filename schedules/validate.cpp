#include "troupe/schedules/validate.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/op_checker.hpp"

namespace troupe {

namespace {

using mask = std::uint8_t;

constexpr mask bit(op_kind kind) {
  return static_cast<mask>(1U << static_cast<unsigned>(kind));
}

constexpr std::int8_t any_copy = -1;

constexpr mask full_backward = bit(op_kind::forward) | bit(op_kind::backward);
constexpr mask split_backward = bit(op_kind::forward)
                                | bit(op_kind::input_backward)
                                | bit(op_kind::weight_backward);

class validator : op_checker<schedule, op> {
 public:
  validator(const schedule& lanes, const op_locator& locate)
    : op_checker{lanes, locate},
      seen_(slot_count(lanes)),
      copies_(slot(lanes.microbatches), any_copy) {}

  void run() {
    for_each_op([&](const op& what) { check(what); });
    check_complete();
  }

 private:
  void check(const op& what) {
    check_range(what, 0);
    auto& seen = seen_[op_slot(order_, what)];
    if ((seen & bit(what.kind)) != 0)
      refuse(what, "appears twice; remove one");
    const auto conflict = what.kind == op_kind::backward
                            ? split_backward & ~full_backward
                          : is_backward(what.kind) ? bit(op_kind::backward)
                                                   : 0;
    if ((seen & conflict) != 0)
      refuse(what,
             "conflicts with another op: a microbatch has either B, or I and "
             "W");
    check_order(what, seen);
    seen |= bit(what.kind);
    check_copy(what);
    check_pair(what);
  }

  void check_order(const op& what, mask seen) const {
    const auto needed = what.kind == op_kind::forward ? mask{0}
                        : what.kind == op_kind::weight_backward
                          ? bit(op_kind::input_backward)
                          : bit(op_kind::forward);
    if ((seen & needed) != needed)
      refuse(what, what.kind == op_kind::weight_backward
                     ? "comes before its I"
                     : "comes before its F");
  }

  // A result goes from a stage to the next one of the same copy.
  void check_copy(const op& what) {
    auto& copy = copies_[slot(what.microbatch)];
    if (copy != any_copy && copy != what.copy)
      refuse(what, fmt::format("is in copy {} of its stage, but other ops of "
                               "microbatch {} are in copy {}; a microbatch "
                               "uses one copy",
                               what.copy, what.microbatch, copy));
    copy = what.copy;
  }

  void check_pair(const op& what) const {
    if (!what.overlaps_next)
      return;
    const auto lane = order_.lane(rank_);
    const auto* next = index_ + 1 < lane.size() ? &lane[index_ + 1] : nullptr;
    if (what.kind != op_kind::forward || next == nullptr
        || next->kind != op_kind::backward || next->overlaps_next)
      refuse(what, "begins an overlapped pair that is not F, then B");
    if (next->stage == what.stage && next->copy == what.copy)
      fail(error_code::invalid_schedule,
           "{}: the overlapped pair {}, {} has one stage; it needs two",
           locate_(rank_, index_), to_text(order_, what),
           to_text(order_, *next));
  }

  void check_complete() {
    const auto training = is_training(order_);
    const auto complete = [=](mask seen) {
      return training ? seen == full_backward || seen == split_backward
                      : seen == bit(op_kind::forward);
    };
    const auto bad = std::find_if_not(seen_.begin(), seen_.end(), complete);
    if (bad != seen_.end())
      refuse_missing(slot(bad - seen_.begin()), *bad);
  }

  [[noreturn]] void refuse_missing(std::size_t index, mask seen) {
    const auto slices = slot(order_.slices);
    const auto microbatches = slot(order_.microbatches);
    op missing{
      .stage = static_cast<std::int32_t>(index / slices / microbatches),
      .microbatch = static_cast<std::int32_t>(index / slices % microbatches),
      .slice = static_cast<std::int16_t>(index % slices)};
    if (seen != 0)
      missing.kind = (seen & bit(op_kind::input_backward)) != 0
                       ? op_kind::weight_backward
                       : op_kind::backward;
    const auto copy = copies_[slot(missing.microbatch)];
    missing.copy = std::max(copy, std::int8_t{0});
    rank_ = order_.placement.rank_of(missing.stage, missing.copy);
    index_ = order_.lane(rank_).size();
    refuse(missing, "is missing");
  }

  std::vector<mask> seen_;           // by op_slot
  std::vector<std::int8_t> copies_;  // by microbatch
};

void require_legal(const update_rule& rule, const schedule& lanes,
                   std::string_view whole) {
  if (rule.every < 0 || rule.every > lanes.microbatches
      || rule.lag < update_rule::newest)
    fail(error_code::invalid_schedule,
         "{}: updates every {} microbatches with a lag of {} are not possible "
         "with {} microbatches",
         whole, rule.every, rule.lag, lanes.microbatches);
}

// A version of the parameters belongs to one forward and its backward.
void require_updates(const schedule& lanes, std::string_view whole) {
  if (!is_training(lanes))
    fail(error_code::invalid_schedule,
         "{}: it updates parameters, but has no backwards", whole);
  if (lanes.slices > 1 || lanes.placement.copies() > 1)
    fail(error_code::invalid_schedule,
         "{}: a schedule that updates within a step has one copy of each "
         "stage, and no slices",
         whole);
  if (const auto late = first_out_of_order(lanes))
    fail(error_code::invalid_schedule,
         "{}: {} comes after a later microbatch; with updates within a step "
         "they must ascend",
         whole, to_text(*late));
  for (const auto& ops : lanes.lanes)
    for (const auto& what : ops)
      if (what.kind == op_kind::input_backward)
        fail(error_code::invalid_schedule,
             "{}: {} splits a backward, which updates within a step do not "
             "allow; use B",
             whole, to_text(what));
}

}  // namespace

void check_size(std::string_view what, std::int32_t value, std::int32_t most) {
  if (const auto nearest = std::clamp(value, 1, most); value != nearest)
    fail(error_code::invalid_argument,
         "{} must be in 1..{}, not {}: the nearest legal value is {}", what,
         most, value, nearest);
}

void check_sizes(const placement& placement, std::int32_t microbatches,
                 std::int32_t slices) {
  check_size("microbatches", microbatches, most_microbatches);
  check_size("slices", slices, INT16_MAX);
  check_size("copies of the stages", placement.copies(), 2);
  check_size("stages", placement.stages(), most_microbatches);
  for (const auto& ranks : placement.rank_by_stage) {
    if (ranks.size() != slot(placement.stages()))
      fail(error_code::invalid_argument,
           "a placement gives each copy of the {} stages a rank, but one copy "
           "has {}",
           placement.stages(), ranks.size());
    for (const auto rank : ranks)
      if (rank < 0 || rank >= placement.ranks)
        fail(error_code::invalid_argument,
             "a placement on {} ranks, counted from 0, has no rank {}",
             placement.ranks, rank);
  }
}

void validate(const schedule& lanes) {
  validate(lanes, lanes.name, [](std::int32_t rank, std::size_t index) {
    return fmt::format("rank {}, op {}", rank, index);
  });
}

void validate(const schedule& lanes, std::string_view whole,
              const op_locator& locate) {
  check_sizes(lanes.placement, lanes.microbatches, lanes.slices);
  if (lanes.lanes.size() != slot(lanes.ranks()))
    fail(error_code::invalid_schedule,
         "the placement has {} ranks, but there are {} lanes", lanes.ranks(),
         lanes.lanes.size());
  require_legal(lanes.update, lanes, whole);
  validator{lanes, locate}.run();
  if (lanes.update.every > 0)
    require_updates(lanes, whole);
}

bool is_training(const schedule& lanes) {
  return std::ranges::any_of(lanes.lanes, [](const lane& ops) {
    return std::ranges::any_of(ops, is_backward, &op::kind);
  });
}

std::vector<std::int8_t> copies_taken(const schedule& lanes) {
  std::vector<std::int8_t> copies(slot(lanes.microbatches), 0);
  for (const auto& lane : lanes.lanes)
    for (const auto& what : lane)
      copies[slot(what.microbatch)] = what.copy;
  return copies;
}

std::optional<op> first_out_of_order(const schedule& lanes) {
  const auto stages = slot(lanes.stages()) * slot(lanes.placement.copies());
  constexpr std::size_t series = 3;  // F; I; B and W, which add to gradients
  std::vector<std::int64_t> last(stages * series, -1);
  const auto descends = [&](const op& o) {
    const auto slice =
      is_backward(o.kind) ? lanes.slices - 1 - o.slice : o.slice;
    const auto index = std::int64_t{o.microbatch} * lanes.slices + slice;
    const auto row = slot(o.copy) * slot(lanes.stages()) + slot(o.stage);
    const std::size_t of_kind = frees_activation(o.kind)     ? 2
                                : o.kind == op_kind::forward ? 0
                                                             : 1;
    auto& previous = last[row * series + of_kind];
    return std::exchange(previous, index) > index;
  };
  for (const auto& ops : lanes.lanes)
    if (const auto found = std::find_if(ops.begin(), ops.end(), descends);
        found != ops.end())
      return *found;
  return std::nullopt;
}

}  // namespace troupe
