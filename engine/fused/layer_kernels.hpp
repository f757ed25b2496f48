#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/device/vector_code.hpp"
#include "troupe/engine/fused/activation_kind.hpp"

namespace troupe::fused {

/// Rows, one behind the other, of that width. T: float or bf16_bits.
template <class T>
struct norm_call {
  const T* x;
  const float* weight;
  const float* bias;  // null: RMSNorm
  T* output;
  float *mean, *scale;  // mean: null for RMSNorm
  std::int64_t width;
  float epsilon;
};

template <class T>
struct norm_backward_call {
  const T *gradient, *x;
  const float *mean, *scale, *weight;
  T* of_x;
  std::int64_t width;
};

/// What an activation reads and writes.
template <class T>
struct activation_call {
  const T *x, *factor = nullptr, *gradient = nullptr;
  T *output = nullptr, *of_x = nullptr, *of_factor = nullptr;
};

/// Heads of rows and positions, which begin so many elements apart; `width`: of
/// a head. The output has no gaps.
template <class T>
struct rotation_call {
  const T* x;
  T* output;
  const float *cosines, *sines;  // [positions, pairs]
  std::int64_t row_step, position_step, head_step;
  std::int64_t positions, heads, width, pairs;
  bool inverse;  // by the negative angles
};

/// Rows of logits, one behind the other, of that width; a target is a class or
/// `ignored`.
template <class T>
struct cross_entropy_call {
  T* logits;  // which their gradients, of `scale` times the loss, overwrite
  const std::int64_t* targets;
  /// [rows, 2]: the greatest logit, and the logarithm of the sum of
  /// exponentials of what the logits are less than it.
  float* norms;
  float* losses;
  std::int64_t width, ignored;
  float scale;
};

template <class T>
struct layer_functions {
  /// Normalizes the rows [first, end).
  void (*normalize)(const norm_call<T>&, std::int64_t first, std::int64_t end);
  /// Also sets the sums over these rows, [width]: of the weight's gradient, and
  /// of the bias's for a norm with a mean.
  void (*normalize_backward)(const norm_backward_call<T>&, std::int64_t first,
                             std::int64_t end, float* of_weight,
                             float* of_bias);
  /// Sets the sum of `count` rows, which begin `step` elements apart.
  void (*sum_rows)(const T* rows, std::int64_t count, std::int64_t width,
                   std::int64_t step, float* sum);

  /// Rotates positions [first, end), counted over all rows.
  void (*rotate)(const rotation_call<T>&, std::int64_t first, std::int64_t end);

  /// `losses` sets the losses and norms of the rows [first, end);
  /// `loss_gradients` reads the norms.
  void (*losses)(const cross_entropy_call<T>&, std::int64_t first,
                 std::int64_t end);
  void (*loss_gradients)(const cross_entropy_call<T>&, std::int64_t first,
                         std::int64_t end);

  /// Computes the elements [first, end).
  using elements = void (*)(const activation_call<T>&, std::int64_t first,
                            std::int64_t end);
  struct of_activation {
    elements forward, backward, gated_forward, gated_backward;
  };
  of_activation activations[3];  // by fused::activation
};

/// Norms, activations, rotations, losses and sums by one instruction set, in
/// fp32 whatever the type of tensors.
struct layer_kernels {
  const char* name;
  layer_functions<float> fp32;
  layer_functions<bf16_bits> bf16;  // null where LibTorch's take less time
};

extern const layer_kernels plain_layers;

/// Those that this machine can run, the best last.
std::vector<const layer_kernels*> usable_layers();

/// What is used in this process; null: LibTorch's operators.
const layer_kernels* chosen_layers();

/// What is used from now on. For tests and benchmarks: by default it is the
/// best, or LibTorch's where that is the plain one.
void use_layers(const layer_kernels* kernels);

}  // namespace troupe::fused
