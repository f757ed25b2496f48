#pragma once

#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::testing {

/// The worked example of the GAP and overflow monitors: fc = Linear(2, 2),
/// head = Linear(2, 1) without bias, loss = sum(out) / 4 over four rows.
struct small_linear final : stage_module {
  small_linear(const at::Tensor& w, const at::Tensor& b) {
    weight = register_parameter("weight", w.clone());
    if (b.defined())
      bias = register_parameter("bias", b.clone());
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::linear(inputs.at(0), weight, bias)};
  }
  at::Tensor weight, bias;
};

inline at::Tensor matrix(std::vector<float> values, std::int64_t columns) {
  return at::tensor(values).reshape({-1, columns});
}

inline model model_g() {
  return {
    {"fc",
     [] {
       return std::make_shared<small_linear>(matrix({1, -2, .5, 4}, 2),
                                             at::tensor({0.F, -1.F}));
     }},
    {"head",
     [] {
       return std::make_shared<small_linear>(matrix({2, -3}, 2), at::Tensor{});
     }},
  };
}

inline at::Tensor rows_g() {
  return matrix({1, 2, 3, -1, 0, 1, -2, .5}, 2);
}

/// The rows, cut into `parts` microbatches.
inline source_pointer source_g(std::int64_t parts) {
  return make_source([parts](std::int64_t k) {
    const auto rows = 4 / parts;
    return microbatch_data{
      {rows_g().narrow(0, (k % parts) * rows, rows)}, {}, {}, rows};
  });
}

/// `microbatches` per replica; the rows are divided among all of them.
inline trainer_options options_g(std::int32_t ranks, std::int32_t microbatches,
                                 std::int32_t data_parallel = 1) {
  trainer_options options;
  options.schedule =
    make_schedule("1f1b", {.ranks = ranks, .microbatches = microbatches});
  options.data_parallel = data_parallel;
  options.numerics.optimizer = sgd{};
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"loss", outputs.at(0).mean()}};
  };
  return options;
}

}  // namespace troupe::testing
