#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// Stochastic gradient descent; weight decay is added to the gradient.
struct sgd {
  double learning_rate = 0.05;
  double momentum = 0;
  double weight_decay = 0;
};

/// Loshchilov and Hutter's AdamW: decoupled weight decay.
struct adamw {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

using optimizer_options = std::variant<sgd, adamw>;

double base_learning_rate(const optimizer_options& options);

/// Throws `invalid_argument` for values that make no sense.
void require_legal(const optimizer_options& options);

/// Updates a fixed list of parameters in place from their gradients, with
/// LibTorch's fused kernels. Works element by element, so a model gives the
/// same bits however its parameters are spread over stages. Leaves parameters
/// without a gradient unchanged. Not thread-safe.
class optimizer {
 public:
  virtual ~optimizer() = default;
  virtual void step(double learning_rate) = 0;
};

std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options,
                                          tensor_list parameters);

}  // namespace troupe
