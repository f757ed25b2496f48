#pragma once

#include <map>
#include <tuple>
#include <utility>

#include "troupe/engine/stage/stage.hpp"

namespace troupe::testing {

/// Runs a stage's ops and keeps, as a rank does, what they leave for each
/// other. Slices of a microbatch run in turn, in backwards the other way round.
class driven_stage {
 public:
  explicit driven_stage(stage_compute& compute) : compute_(compute) {}

  tensor_lists forward(microbatch_key key, tensor_lists inputs,
                       const microbatch_data& data = {}) {
    auto made = compute_.forward(key, std::move(inputs), data,
                                 {.carry = std::move(carry_)});
    carry_ = std::exchange(made.states.carry, {});
    left_[key] = std::move(made.states);
    return std::move(made.tensors);
  }
  tensor_lists backward(op_kind kind, microbatch_key key,
                        tensor_lists output_gradients = {}) {
    left_[key].carry = std::move(carry_);
    auto made = compute_.backward(kind, key, std::move(output_gradients),
                                  std::exchange(left_[key], {}));
    carry_ = std::exchange(made.states.carry, {});
    left_[key] = std::move(made.states);
    return std::move(made.tensors);
  }
  const stage_states& left(microbatch_key key) { return left_[key]; }

 private:
  stage_compute& compute_;
  std::map<microbatch_key, stage_states> left_;
  std::shared_ptr<stage_state> carry_;
};

}  // namespace troupe::testing
