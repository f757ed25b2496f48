#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "troupe/engine/plan/search/search.hpp"
#include "troupe/engine/plan/values.hpp"

namespace troupe {

namespace {

class bound {
 public:
  explicit bound(const search_problem& problem)
    : problem_{problem}, stages_{problem.placement.stages()} {}

  double period() const {
    const auto longest = busy();
    const auto& graph = problem_.compiling.graph;
    if (problem_.placement.copies() > 1
        || (graph.stages() > 0 && !graph.is_chain()))
      return longest;
    auto bound = std::max(longest, transfers());
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      bound = std::max(bound, span_from(stage));
    return bound;
  }

 private:
  double cost(std::int32_t stage, plan_op_kind kind) const {
    return problem_.costs.cost_of(0, {.kind = kind, .stage = stage});
  }
  double forward(std::int32_t stage) const {
    return cost(stage, plan_op_kind::forward);
  }
  // Until the gradient of a stage's inputs is there.
  double gradient(std::int32_t stage) const {
    const auto full = cost(stage, plan_op_kind::backward);
    return problem_.split_backward
             ? std::min(full, cost(stage, plan_op_kind::input_backward))
             : full;
  }
  double backward(std::int32_t stage) const {
    const auto full = cost(stage, plan_op_kind::backward);
    return problem_.split_backward
             ? std::min(full, cost(stage, plan_op_kind::input_backward)
                                + cost(stage, plan_op_kind::weight_backward))
             : full;
  }
  message_time message(std::int32_t stage, std::int32_t next) const {
    const auto& ranks = problem_.placement;
    return crosses(ranks, stage, next, 0) ? problem_.costs.message_between(
             ranks.rank_of(stage), ranks.rank_of(next))
                                          : message_time{};
  }
  double slots() const {
    return static_cast<double>(problem_.microbatches) * problem_.slices;
  }
  bool on_rank(std::int32_t stage, std::int32_t rank) const {
    return problem_.placement.rank_of(stage) == rank;
  }

  double closing(std::int32_t stage) const {
    return cost(stage, plan_op_kind::gradient_norm)
           + cost(stage, plan_op_kind::update);
  }

  // By rank, the lowest of those with which it shares copies of stages.
  std::vector<std::int32_t> groups() const {
    const auto& ranks = problem_.placement;
    std::vector<std::int32_t> group(slot(ranks.ranks));
    std::iota(group.begin(), group.end(), 0);
    for (const auto each : ranks.instances()) {
      const auto one = group[slot(ranks.rank_of(each))];
      const auto other = group[slot(ranks.rank_of(each.stage))];
      std::ranges::replace(group, std::max(one, other), std::min(one, other));
    }
    return group;
  }

  // Any copy may take any microbatch: on average over a group.
  double busy() const {
    const auto& ranks = problem_.placement;
    const auto group = groups();
    std::map<std::int32_t, double> sums;
    for (const auto each : ranks.instances()) {
      auto& sum = sums[group[slot(ranks.rank_of(each))]];
      sum += closing(each.stage);
      if (each.copy == 0)
        sum += slots() * (forward(each.stage) + backward(each.stage));
    }
    double longest = 0;
    for (const auto& [lowest, sum] : sums)
      longest = std::max(
        longest, sum / static_cast<double>(std::ranges::count(group, lowest)));
    return longest;
  }

  double transfers() const {
    const auto& ranks = problem_.placement;
    std::map<rank_pair, double> sums;  // from, to
    for (std::int32_t stage = 0; stage + 1 < stages_; ++stage)
      sums[{ranks.rank_of(stage), ranks.rank_of(stage + 1)}] +=
        slots() * message(stage, stage + 1).transfer;
    double longest = 0;
    for (const auto& [ends, sum] : sums)
      longest = std::max(longest, sum);
    return longest;
  }

  // The step of a stage's rank, from the stage's first forward on.
  double span_from(std::int32_t first) const {
    const auto rank = problem_.placement.rank_of(first);
    double there_and_back = 0;
    double longest = 0;
    for (auto stage = first; stage < stages_; ++stage) {
      longest = std::max(longest, there_and_back + work_from(stage));
      if (stage + 1 < stages_)
        there_and_back += forward(stage) + gradient(stage)
                          + 2 * message(stage, stage + 1).total();
    }
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      if (on_rank(stage, rank))
        longest += closing(stage);
    return longest + backward(first) - gradient(first);
  }

  // Forwards and gradients of a stage, and of later ones on its rank.
  double work_from(std::int32_t first) const {
    const auto rank = problem_.placement.rank_of(first);
    double sum = 0;
    for (auto stage = first; stage < stages_; ++stage)
      if (on_rank(stage, rank))
        sum += slots() * (forward(stage) + gradient(stage));
    return sum;
  }

  const search_problem& problem_;
  std::int32_t stages_;
};

}  // namespace

double period_bound(const search_problem& problem) {
  return bound{problem}.period();
}

}  // namespace troupe
