#include "troupe/engine/plan/compile/least_credits.hpp"

#include <optional>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

namespace troupe {

namespace {

class credit_search {
 public:
  credit_search(const plan& of, credit_goal goal, op_costs costs)
    : plan_(of), costs_(std::move(costs)) {
    costs_.credits = true;
    for (auto& channel : plan_.channels)
      channel.credits = channel.bound;
    if (const auto proof = verify(plan_, {transport_kind::credited});
        !proof.progress)
      throw error(error_code::deadlock, proof.text());
    if (goal == credit_goal::makespan)
      longest_ = simulate(plan_, costs_).makespan * (1 + 1e-9);
  }

  std::vector<std::int32_t> run() {
    std::vector<std::int32_t> least;
    for (auto& channel : plan_.channels) {
      // Lowering others later can only make this one's more necessary.
      auto enough = channel.credits;
      for (std::int32_t few = 0; enough - few > 1;) {
        channel.credits = few + (enough - few) / 2;
        (suffices() ? enough : few) = channel.credits;
      }
      channel.credits = enough;
      least.push_back(enough);
    }
    return least;
  }

 private:
  bool suffices() const {
    return verify(plan_, {transport_kind::credited}).progress
           && (!longest_ || simulate(plan_, costs_).makespan <= *longest_);
  }

  plan plan_;
  op_costs costs_;
  std::optional<double> longest_;
};

}  // namespace

std::vector<std::int32_t> least_credits(const plan& plan, credit_goal goal,
                                        op_costs costs) {
  return credit_search(plan, goal, std::move(costs)).run();
}

}  // namespace troupe
