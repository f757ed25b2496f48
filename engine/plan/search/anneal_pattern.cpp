#include <algorithm>
#include <cmath>
#include <utility>

#include "troupe/engine/plan/search/annealing.hpp"
#include "troupe/engine/plan/search/lane_moves.hpp"

namespace troupe {

namespace {

/// When stages run F and the gradients of microbatch 0, and how much later each
/// next microbatch follows; ranks keep the order, as far as their limits of
/// activations and the costs let them: the building blocks of "Pipeline
/// parallelism with controllable memory" (Qi et al., 2024).
struct pattern {
  double interval = 0;
  std::vector<double> forward{}, gradient{};  // by stage
  std::vector<std::int32_t> limits{};         // by rank
};

// That of the microbatch in the middle.
pattern pattern_of(const trial& like) {
  const auto& lanes = like.lanes;
  pattern found{
    .interval = like.period / lanes.microbatches,
    .forward = std::vector<double>(static_cast<std::size_t>(lanes.stages()), 0),
    .limits = like.times.in_flight};
  found.gradient = found.forward;
  const auto middle = lanes.microbatches / 2;
  for (std::uint32_t i = 0; i < like.step.ops.size(); ++i) {
    const auto& what = like.step.ops[i];
    if (!is_compute(what.kind) || what.microbatch != middle)
      continue;
    const auto stage = static_cast<std::size_t>(what.stage);
    const auto start = like.times.start[i] - middle * found.interval;
    if (what.kind == plan_op_kind::forward)
      found.forward[stage] = start;
    else if (takes_gradient(what.kind))
      found.gradient[stage] = start;
  }
  return found;
}

class pattern_annealer {
 public:
  pattern_annealer(const search_problem& problem, const trial& first,
                   std::uint64_t seed)
    : problem_{problem},
      random_{seed},
      split_{has_split_backward(first.lanes)},
      now_{pattern_of(first)},
      now_trial_{first},
      best_{first} {}

  trial run(std::int32_t tries) {
    for (std::int32_t i = 0; i < tries && !is_stopped(problem_); ++i) {
      auto next = neighbour();
      auto lanes = lanes_of(next);
      auto found =
        lanes ? try_lanes(problem_, std::move(*lanes)) : std::nullopt;
      if (!found || !within_limit(problem_, *found))
        continue;
      if (better(*found, best_))
        best_ = *found;
      if (random_.accepts(*found, now_trial_, static_cast<double>(i) / tries)) {
        now_ = std::move(next);
        now_trial_ = std::move(*found);
      }
    }
    return std::move(best_);
  }

 private:
  pattern neighbour() {
    auto next = now_;
    const auto choice = random_.below(8);
    if (choice == 0)
      change_limits(next);
    else if (choice == 1)
      next.interval *= 0.95 + 0.1 * random_.uniform();
    else
      shift_stages(next);
    return next;
  }

  // One rank's, or all.
  void change_limits(pattern& next) {
    const auto change = random_.below(2) == 0 ? 1 : -1;
    const auto chosen = random_.below(2 * next.limits.size());
    for (std::size_t rank = 0; rank < next.limits.size(); ++rank)
      if (chosen == rank || chosen >= next.limits.size())
        next.limits[rank] = std::max(1, next.limits[rank] + change);
  }

  // Some stages that follow each other, forwards or gradients.
  void shift_stages(pattern& next) {
    auto& starts = random_.below(2) == 0 ? next.forward : next.gradient;
    const auto first = random_.below(starts.size());
    const auto count = 1 + random_.below(starts.size() - first);
    const auto shift = (2 * random_.uniform() - 1) * next.interval;
    for (auto stage = first; stage < first + count; ++stage)
      starts[stage] += shift;
  }

  std::optional<schedule> lanes_of(const pattern& from) const {
    return list_schedule(
      problem_,
      {.in_flight_limit =
         [&](std::int32_t rank) {
           return from.limits[static_cast<std::size_t>(rank)];
         },
       .stage_limit =
         [&](std::int32_t stage) {
           const auto s = static_cast<std::size_t>(stage);
           const auto kept = from.gradient[s] - from.forward[s];
           return std::max(
             1, static_cast<std::int32_t>(std::ceil(kept / from.interval)));
         },
       .start =
         [&](const op& what) {
           const auto stage = static_cast<std::size_t>(what.stage);
           return what.microbatch * from.interval
                  + (is_backward(what.kind) ? from.gradient[stage]
                                            : from.forward[stage]);
         },
       .prefer = {preference::weight_backward_last, preference::early_start},
       .split_backward = split_});
  }

  const search_problem& problem_;
  annealing random_;
  bool split_;
  pattern now_;
  trial now_trial_, best_;
};

}  // namespace

trial annealed_pattern(const search_problem& problem, const trial& first,
                       std::int32_t tries, std::uint64_t seed) {
  return takes_rules(problem)
           ? pattern_annealer{problem, first, seed}.run(tries)
           : first;
}

}  // namespace troupe
