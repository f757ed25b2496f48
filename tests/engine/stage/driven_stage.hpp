#pragma once

#include <map>
#include <tuple>
#include <utility>

#include "troupe/engine/stage/stage.hpp"

namespace troupe::testing {

/// Runs a stage's ops and, as a rank does, keeps the state between them. Slices
/// of a microbatch run in ascending order, in backwards in descending order.
class driven_stage {
 public:
  explicit driven_stage(stage_compute& compute) : compute_(compute) {}

  tensor_lists forward(microbatch_key key, tensor_lists inputs,
                       const microbatch_data& data = {}) {
    auto result = compute_.forward(key, std::move(inputs), data,
                                   {.carry = std::move(carry_)});
    carry_ = std::exchange(result.states.carry, {});
    left_[key] = std::move(result.states);
    return std::move(result.tensors);
  }
  tensor_lists backward(op_kind kind, microbatch_key key,
                        tensor_lists output_gradients = {}) {
    left_[key].carry = std::move(carry_);
    auto result = compute_.backward(kind, key, std::move(output_gradients),
                                    std::exchange(left_[key], {}));
    carry_ = std::exchange(result.states.carry, {});
    left_[key] = std::move(result.states);
    return std::move(result.tensors);
  }
  const stage_states& left(microbatch_key key) { return left_[key]; }

 private:
  stage_compute& compute_;
  std::map<microbatch_key, stage_states> left_;
  std::shared_ptr<stage_state> carry_;
};

}  // namespace troupe::testing
