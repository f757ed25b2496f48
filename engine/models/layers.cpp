#include "troupe/engine/models/layers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace troupe {

linear_layer::linear_layer(std::int64_t inputs, std::int64_t outputs) {
  weight = register_parameter("weight", at::empty({outputs, inputs}));
  bias = register_parameter("bias", at::empty({outputs}));
}

at::Tensor linear_layer::forward(const at::Tensor& x) const {
  return at::linear(x, weight, bias);
}

void linear_layer::fill(double deviation, at::Generator generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, deviation, std::move(generator));
  bias.zero_();
}

norm_layer::norm_layer(std::int64_t width) {
  weight = register_parameter("weight", at::ones({width}));
  bias = register_parameter("bias", at::zeros({width}));
}

at::Tensor norm_layer::forward(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias);
}

embedding_layer::embedding_layer(std::int64_t entries, std::int64_t width) {
  weight = register_parameter("weight", at::empty({entries, width}));
}

at::Tensor embedding_layer::forward(const at::Tensor& ids) const {
  return at::embedding(weight, ids);
}

void embedding_layer::fill(double deviation, at::Generator generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, deviation, std::move(generator));
}

}  // namespace troupe
