#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "troupe/engine/plan/search/search_steps.hpp"

namespace troupe {

namespace {

/// Simulated annealing, by random choices that are the same on every system,
/// unlike those of the library's distributions.
class annealer {
 public:
  annealer(const search_problem& problem, const trial& first,
           std::uint64_t seed)
    : problem_{problem}, now_{first}, random_{seed}, best_{first} {}

 protected:
  std::size_t below(std::size_t end) { return random_() % end; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  /// The best of the first and `tries` others: `neighbour` makes a schedule, if
  /// it can, and `accepted` is called where the search goes on from it, which
  /// is then `now_`.
  template <class Neighbour, class Accepted>
  trial search(std::int32_t tries, const Neighbour& neighbour,
               const Accepted& accepted) {
    for (std::int32_t i = 0; i < tries && !is_stopped(problem_); ++i) {
      auto next = neighbour();
      auto found = next ? try_lanes(problem_, std::move(*next)) : std::nullopt;
      if (!found || !within_limit(problem_, *found))
        continue;
      if (better(*found, best_))
        best_ = *found;
      if (accepts(*found, static_cast<double>(i) / tries)) {
        now_ = std::move(*found);
        accepted();
      }
    }
    return std::move(best_);
  }

  const search_problem& problem_;
  trial now_;

 private:
  /// Always if it is no worse; else the more rarely, the worse it is and the
  /// later. `progress` is in 0..1.
  bool accepts(const trial& next, double progress) {
    const auto cooled = 0.01 * std::pow(1e-3, progress) * energy(now_);
    const auto worse = energy(next) - energy(now_);
    return worse <= 0 || (cooled > 0 && uniform() < std::exp(-worse / cooled));
  }

  // The makespan guides where the period is the same for many neighbours.
  static double energy(const trial& of) {
    return of.period + 0.05 * of.makespan;
  }

  std::mt19937_64 random_;
  trial best_;
};

/// Where an op stands: rank and place in its lane.
struct lane_place {
  std::size_t rank = 0;
  std::size_t index = 0;
};

class lane_annealer : annealer {
 public:
  using annealer::annealer;

  trial run(std::int32_t tries) {
    index_ops();
    return search(
      tries, [&] { return neighbour(); }, [&] { index_ops(); });
  }

 private:
  void index_ops() {
    places_.assign(now_.step.ops.size(), {});
    for (std::int32_t rank = 0; rank < now_.lanes.ranks(); ++rank) {
      std::size_t index = 0;
      for (const auto op : now_.step.ops_of(rank))
        if (is_compute(now_.step.ops[op].kind))
          places_[op] = {slot(rank), index++};
    }
  }

  std::optional<schedule> neighbour() {
    const auto choice = below(10);
    if (choice < 4)
      return critical_move();
    if (choice < 9 || !takes_rules(problem_))
      return random_move();
    return rescheduled_now();
  }

  // An op of the critical path overtakes what its rank ran before it there.
  std::optional<schedule> critical_move() {
    const auto& path = now_.times.critical_path;
    if (path.size() < 2)
      return std::nullopt;
    const auto at = 1 + below(path.size() - 1);
    if (!is_compute(now_.step.ops[path[at - 1]].kind)
        || !is_compute(now_.step.ops[path[at]].kind))
      return std::nullopt;
    const auto before = places_[path[at - 1]];
    const auto after = places_[path[at]];
    if (before.rank != after.rank)
      return std::nullopt;
    const auto to = before.index - std::min(before.index, below(3));
    return moved(after, to);
  }

  std::optional<schedule> random_move() {
    const auto rank = below(now_.lanes.lanes.size());
    const auto size = now_.lanes.lanes[rank].size();
    const lane_place from{rank, below(size)};
    if (problem_.split_backward && below(8) == 0)
      return split_or_joined(from);
    const auto distance = 1 + below(std::size_t{1} << (1 + below(4)));
    const auto to = below(2) == 0 ? from.index - std::min(from.index, distance)
                                  : std::min(size - 1, from.index + distance);
    return moved(from, to);
  }

  std::optional<schedule> moved(lane_place from, std::size_t to) const {
    auto lanes = now_.lanes;
    if (!move_op(lanes.lanes[from.rank], from.index, to))
      return std::nullopt;
    return lanes;
  }

  std::optional<schedule> split_or_joined(lane_place at) const {
    auto lanes = now_.lanes;
    auto& ops = lanes.lanes[at.rank];
    if (!split_backward(ops, at.index) && !join_backward(ops, at.index))
      return std::nullopt;
    return lanes;
  }

  std::optional<schedule> rescheduled_now() {
    const auto noise = 0.02 * now_.makespan * uniform();
    const auto most = std::ranges::max(now_.times.in_flight);
    const auto room = static_cast<double>(below(3)) - 1;
    return rescheduled(problem_, now_, 1 + room / most,
                       [&] { return noise * uniform(); });
  }

  std::vector<lane_place> places_;  // by plan op
};

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
  pattern found{.interval = like.period / lanes.microbatches,
                .forward = std::vector<double>(slot(lanes.stages()), 0),
                .limits = like.times.in_flight};
  found.gradient = found.forward;
  const auto middle = lanes.microbatches / 2;
  for (std::uint32_t i = 0; i < like.step.ops.size(); ++i) {
    const auto& what = like.step.ops[i];
    if (!is_compute(what.kind) || what.microbatch != middle)
      continue;
    const auto stage = slot(what.stage);
    const auto start = like.times.start[i] - middle * found.interval;
    if (what.kind == plan_op_kind::forward)
      found.forward[stage] = start;
    else if (takes_gradient(what.kind))
      found.gradient[stage] = start;
  }
  return found;
}

class pattern_annealer : annealer {
 public:
  pattern_annealer(const search_problem& problem, const trial& first,
                   std::uint64_t seed)
    : annealer{problem, first, seed},
      split_{has_split_backward(first.lanes)},
      pattern_{pattern_of(first)} {}

  trial run(std::int32_t tries) {
    pattern next;
    return search(
      tries,
      [&] {
        next = neighbour();
        return lanes_of(next);
      },
      [&] { pattern_ = next; });
  }

 private:
  pattern neighbour() {
    auto next = pattern_;
    const auto choice = below(8);
    if (choice == 0)
      change_limits(next);
    else if (choice == 1)
      next.interval *= 0.95 + 0.1 * uniform();
    else
      shift_stages(next);
    return next;
  }

  // One rank's, or all.
  void change_limits(pattern& next) {
    const auto change = below(2) == 0 ? 1 : -1;
    const auto chosen = below(2 * next.limits.size());
    for (std::size_t rank = 0; rank < next.limits.size(); ++rank)
      if (chosen == rank || chosen >= next.limits.size())
        next.limits[rank] = std::max(1, next.limits[rank] + change);
  }

  // Some stages that follow each other, forwards or gradients.
  void shift_stages(pattern& next) {
    auto& starts = below(2) == 0 ? next.forward : next.gradient;
    const auto first = below(starts.size());
    const auto count = 1 + below(starts.size() - first);
    const auto shift = (2 * uniform() - 1) * next.interval;
    for (auto stage = first; stage < first + count; ++stage)
      starts[stage] += shift;
  }

  std::optional<schedule> lanes_of(const pattern& from) const {
    return list_schedule(
      problem_,
      {.in_flight_limit =
         [&](std::int32_t rank) { return from.limits[slot(rank)]; },
       .stage_limit =
         [&](std::int32_t stage) {
           const auto kept =
             from.gradient[slot(stage)] - from.forward[slot(stage)];
           return std::max(
             1, static_cast<std::int32_t>(std::ceil(kept / from.interval)));
         },
       .start =
         [&](const op& what) {
           const auto stage = slot(what.stage);
           return what.microbatch * from.interval
                  + (is_backward(what.kind) ? from.gradient[stage]
                                            : from.forward[stage]);
         },
       .prefer = {preference::weight_backward_last, preference::early_start},
       .split_backward = split_});
  }

  bool split_;
  pattern pattern_;
};

}  // namespace

trial annealed_lanes(const search_problem& problem, const trial& first,
                     std::int32_t tries, std::uint64_t seed) {
  return lane_annealer{problem, first, seed}.run(tries);
}

trial annealed_pattern(const search_problem& problem, const trial& first,
                       std::int32_t tries, std::uint64_t seed) {
  return takes_rules(problem)
           ? pattern_annealer{problem, first, seed}.run(tries)
           : first;
}

}  // namespace troupe
