#include <algorithm>

#include "troupe/engine/plan/routes.hpp"
#include "troupe/engine/plan/search.hpp"

namespace troupe {

namespace {

class bound {
 public:
  explicit bound(const search_problem& problem)
    : problem_{problem}, stages_{problem.placement.stages()} {}

  double period() const {
    double longest = 0;
    for (std::int32_t rank = 0; rank < problem_.placement.ranks; ++rank)
      longest = std::max(longest, busy(rank));
    const auto& graph = problem_.compiling.graph;
    if (graph.stages() == 0 || graph.is_chain())
      for (std::int32_t stage = 0; stage < stages_; ++stage)
        longest = std::max(longest, span_from(stage));
    return longest;
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
  double message(std::int32_t stage, std::int32_t next) const {
    return crosses(problem_.placement, stage, next, 0) ? problem_.costs.message
                                                       : 0;
  }
  double slots() const {
    return static_cast<double>(problem_.microbatches) * problem_.slices;
  }
  bool on_rank(std::int32_t stage, std::int32_t rank) const {
    return problem_.placement.rank_of(stage) == rank;
  }

  double closing(std::int32_t rank) const {
    double sum = 0;
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      if (on_rank(stage, rank))
        sum += cost(stage, plan_op_kind::gradient_norm)
               + cost(stage, plan_op_kind::update);
    return sum;
  }

  double busy(std::int32_t rank) const {
    double sum = closing(rank);
    for (std::int32_t stage = 0; stage < stages_; ++stage)
      if (on_rank(stage, rank))
        sum += slots() * (forward(stage) + backward(stage));
    return sum;
  }

  // The step of a stage's rank, from the stage's first forward on.
  double span_from(std::int32_t first) const {
    const auto rank = problem_.placement.rank_of(first);
    double there_and_back = 0;
    double longest = 0;
    for (auto stage = first; stage < stages_; ++stage) {
      longest = std::max(longest, there_and_back + work_from(stage));
      if (stage + 1 < stages_)
        there_and_back +=
          forward(stage) + gradient(stage) + 2 * message(stage, stage + 1);
    }
    return longest + backward(first) - gradient(first) + closing(rank);
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
