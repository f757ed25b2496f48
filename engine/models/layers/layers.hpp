#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A generator for the fresh values of a parameter or module; each name has its
/// own.
at::Generator generator_of(const std::string& name, std::uint64_t seed);

// Small modules over ATen functions, like their namesakes in torch.nn. Their
// parameters are uninitialised, but for those of norms; float32 unless `kind`
// says otherwise, which may also be the meta device.

struct linear_options {
  at::TensorOptions kind{};
  bool bias = true;
  /// The weight is [inputs, outputs], as that of GPT-2's Conv1D.
  bool transposed = false;
};

struct adapter_options {
  std::int64_t rank = 0;
  double scale = 1;
  double dropout = 0;  // of what A reads, in training
};

/// The factors of a product x W^T.
struct linear_factors {
  at::Tensor x, weight;
};

/// What the backward of a linear layer adds to. The bias may be undefined.
struct linear_parameters {
  at::Tensor weight, bias;
  bool transposed = false;
};

struct linear_layer : torch::nn::Module {
  linear_layer(std::int64_t inputs, std::int64_t outputs,
               linear_options options = {});
  at::Tensor forward(const at::Tensor& x) const;
  /// What `forward` sums, for callers that make a part of its outputs at once:
  /// the weight's factors and, with an adapter, those of B. Without a bias, and
  /// not transposed.
  std::vector<linear_factors> factors(const at::Tensor& x) const;
  /// Normal weights with that standard deviation, zero biases.
  void fill(double deviation, at::Generator generator);
  /// Adds scale * B(A x) to what it computes, with modules lora_A and lora_B of
  /// that rank: A uniform as a new Linear of PyTorch, B zeros (LoRA).
  void add_adapter(const adapter_options& options, at::Generator generator);

  linear_parameters as_parameters() const { return {weight, bias, transposed}; }
  bool has_adapter() const { return lora_a_ != nullptr; }
  /// Whether both parameters are trained, or none.
  bool trains_as_one() const {
    return !bias.defined() || bias.requires_grad() == weight.requires_grad();
  }

  at::Tensor weight, bias;  // bias: may be undefined
  bool transposed;

 private:
  at::Tensor base(const at::Tensor& x) const;
  at::Tensor adapted(const at::Tensor& x) const;

  std::shared_ptr<linear_layer> lora_a_, lora_b_;
  adapter_options adapter_;
};

/// Of a norm; the bias is that of LayerNorm.
struct norm_parameters {
  at::Tensor weight, bias;
  double epsilon = 0;

  bool trains() const {
    return weight.requires_grad() || (bias.defined() && bias.requires_grad());
  }
};

/// LayerNorm over the last dimension; or without a mean, RMSNorm:
/// x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich, 2019).
struct norm_layer : torch::nn::Module {
  explicit norm_layer(std::int64_t width, double epsilon = 1e-5,
                      const at::TensorOptions& kind = {}, bool has_mean = true);
  at::Tensor forward(const at::Tensor& x) const;

  norm_parameters as_parameters() const { return {weight, bias, epsilon}; }

  at::Tensor weight, bias;  // bias: of LayerNorm
  double epsilon;
};

/// The exact GELU, by the error function.
struct gelu_layer : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) const;
};

struct embedding_layer : torch::nn::Module {
  /// `padding`: an entry that has no gradient; -1: all have.
  embedding_layer(std::int64_t entries, std::int64_t width,
                  const at::TensorOptions& kind = {},
                  std::int64_t padding = -1);
  at::Tensor forward(const at::Tensor& ids) const;

  at::Tensor weight;
  std::int64_t padding;
};

}  // namespace troupe
