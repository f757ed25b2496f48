#include <algorithm>
#include <utility>

#include "troupe/engine/plan/search/annealing.hpp"

namespace troupe {

namespace {

/// Where an op stands: rank and place in its lane.
struct lane_place {
  std::size_t rank = 0;
  std::size_t index = 0;
};

class lane_annealer {
 public:
  lane_annealer(const search_problem& problem, const trial& first,
                std::uint64_t seed)
    : problem_{problem}, random_{seed}, now_{first}, best_{first} {
    index_ops();
  }

  trial run(std::int32_t tries) {
    for (std::int32_t i = 0; i < tries && !is_stopped(problem_); ++i) {
      auto next = neighbour();
      if (!next)
        continue;
      auto found = try_lanes(problem_, std::move(*next));
      if (!found || !within_limit(problem_, *found))
        continue;
      if (better(*found, best_))
        best_ = *found;
      if (random_.accepts(*found, now_, static_cast<double>(i) / tries)) {
        now_ = std::move(*found);
        index_ops();
      }
    }
    return std::move(best_);
  }

 private:
  void index_ops() {
    places_.assign(now_.step.ops.size(), {});
    for (std::size_t rank = 0; rank < now_.lanes.lanes.size(); ++rank) {
      std::size_t index = 0;
      for (auto op = now_.step.first_op[rank];
           op < now_.step.first_op[rank + 1]; ++op)
        if (is_compute(now_.step.ops[op].kind))
          places_[op] = {rank, index++};
    }
  }

  std::optional<schedule> neighbour() {
    const auto choice = random_.below(10);
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
    const auto at = 1 + random_.below(path.size() - 1);
    if (!is_compute(now_.step.ops[path[at - 1]].kind)
        || !is_compute(now_.step.ops[path[at]].kind))
      return std::nullopt;
    const auto before = places_[path[at - 1]];
    const auto after = places_[path[at]];
    if (before.rank != after.rank)
      return std::nullopt;
    const auto to = before.index - std::min(before.index, random_.below(3));
    return moved(after, to);
  }

  std::optional<schedule> random_move() {
    const auto rank = random_.below(now_.lanes.lanes.size());
    const auto size = now_.lanes.lanes[rank].size();
    const lane_place from{rank, random_.below(size)};
    if (problem_.split_backward && random_.below(8) == 0)
      return split_or_joined(from);
    const auto distance =
      1 + random_.below(std::size_t{1} << (1 + random_.below(4)));
    const auto to = random_.below(2) == 0
                      ? from.index - std::min(from.index, distance)
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
    const auto noise = 0.02 * now_.makespan * random_.uniform();
    const auto most = std::ranges::max(now_.times.in_flight);
    const auto room = static_cast<double>(random_.below(3)) - 1;
    return rescheduled(problem_, now_, 1 + room / most,
                       [&] { return noise * random_.uniform(); });
  }

  const search_problem& problem_;
  annealing random_;
  trial now_, best_;
  std::vector<lane_place> places_;  // by plan op
};

}  // namespace

trial annealed_lanes(const search_problem& problem, const trial& first,
                     std::int32_t tries, std::uint64_t seed) {
  return lane_annealer{problem, first, seed}.run(tries);
}

}  // namespace troupe
