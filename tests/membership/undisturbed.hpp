#pragma once

#include <cstdint>
#include <vector>

#include "draws.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe::simulated {

/// The arithmetic of the training: a rank's state is a hash of everything that
/// was ever applied to it, and a step needs something of every rank's state.
constexpr std::uint64_t part_of_step(std::int32_t rank, std::uint64_t state) {
  return mix(state, static_cast<std::uint64_t>(rank));
}
constexpr std::uint64_t next_state(std::uint64_t state, std::int64_t step,
                                   std::uint64_t sum_of_parts) {
  return mix(state ^ sum_of_parts, static_cast<std::uint64_t>(step));
}

/// The states of a run in which nothing goes wrong.
class undisturbed_run {
 public:
  explicit undisturbed_run(const membership::job_shape& shape)
    : shape_(shape), states_(1) {
    for (std::int32_t state = 0; state < shape.states(); ++state)
      states_[0].push_back(mix(static_cast<std::uint64_t>(state), 77));
  }

  std::uint64_t state(std::int32_t rank, std::int64_t step) {
    while (states_.size() <= static_cast<std::size_t>(step))
      run_step();
    return states_[static_cast<std::size_t>(step)]
                  [static_cast<std::size_t>(shape_.state_of(rank))];
  }

 private:
  void run_step() {
    std::uint64_t sum = 0;
    auto next = states_.back();
    for (std::int32_t rank = 0; rank < shape_.ranks(); ++rank)
      sum += part_of_step(
        rank, next[static_cast<std::size_t>(shape_.state_of(rank))]);
    const auto step = static_cast<std::int64_t>(states_.size());
    for (auto& each : next)
      each = next_state(each, step, sum);
    states_.push_back(std::move(next));
  }

  membership::job_shape shape_;
  std::vector<std::vector<std::uint64_t>> states_;  // [step][state]
};

}  // namespace troupe::simulated
