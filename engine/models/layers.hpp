#pragma once

#include <torch/nn/module.h>

#include <memory>

namespace troupe {

/// Small modules over ATen functions, like their namesakes in torch.nn. Their
/// parameters are float32 and uninitialised until `fill`.

struct linear_layer : torch::nn::Module {
  linear_layer(std::int64_t inputs, std::int64_t outputs);
  at::Tensor forward(const at::Tensor& x) const;
  /// Normal weights with that standard deviation, zero biases.
  void fill(double deviation, at::Generator generator);

  at::Tensor weight, bias;
};

struct norm_layer : torch::nn::Module {
  explicit norm_layer(std::int64_t width);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;
};

/// The exact GELU, by the error function.
struct gelu_layer : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) const;
};

struct embedding_layer : torch::nn::Module {
  embedding_layer(std::int64_t entries, std::int64_t width);
  at::Tensor forward(const at::Tensor& ids) const;
  void fill(double deviation, at::Generator generator);

  at::Tensor weight;
};

}  // namespace troupe
