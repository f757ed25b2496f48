#pragma once

#include <optional>

#include "troupe/engine/device/norm_type.hpp"
#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// Learning rate by step (counted from 1): linear warm-up over
/// `warmup_steps`, then constant, or a cosine or a line down to
/// `final_fraction` of the base rate at `total_steps`; `wsd` and `wsd_sqrt`
/// fall in the last `cooldown_steps` alone, on a line (MiniCPM, Hu et al.,
/// 2024) or as 1 - sqrt (Haegele et al., 2024). The values of step s are those
/// of Transformers' schedulers for s, which begin with 0.
struct learning_rate_schedule {
  enum class shape : std::uint8_t { constant, cosine, linear, wsd, wsd_sqrt };

  shape decay = shape::constant;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // 0: no decay
  double final_fraction = 0.1;
  std::int64_t cooldown_steps = 0;  // of wsd and wsd_sqrt

  double at(std::int64_t step, double base) const;
};

/// Throws `invalid_argument` for negative steps or fractions.
void require_legal(const learning_rate_schedule& schedule);

/// How an input backward (I) leaves the gradients of parameters to W.
enum class weight_split : std::uint8_t {
  /// `layers` where these hold at least half of a stage's parameters.
  automatic,
  /// Layers that support it keep theirs for W (weight_gradients.hpp); others'
  /// are computed in I, and added in W.
  layers,
  /// The nodes of LibTorch's graph that lead to inputs and to parameters are
  /// cut: they run in I for the inputs, and again in W for the parameters. For
  /// any module; a stage without inputs, or whose layers share a parameter, is
  /// split by its layers.
  graph,
};

/// How the losses of an update's microbatches, slices and replicas are averaged
/// and reported.
enum class loss_weighting : std::uint8_t {
  /// Every counted token weighs the same, as in Transformers, torchtune and
  /// torchtitan. A loss that does not count items beforehand (see
  /// loss_function) weighs microbatches equally.
  tokens,
  /// Microbatches and slices weigh the same: a mean of means, as in Megatron-LM
  /// by default and in DeepSpeed.
  microbatches,
};

/// How steps compute losses, gradients and updates, in a pipeline as in the
/// plain loop.
struct numerics {
  /// The loss of the model's last layer, unless that has its own.
  loss_function loss = cross_entropy_loss();
  loss_weighting weighting = loss_weighting::tokens;
  /// The seed of the random numbers that forwards draw (random.hpp).
  std::uint64_t seed = 1;
  optimizer_options optimizer = adamw{};
  parameter_groups parameters{};  // settings of some parameters
  /// Parameters on a device are updated on the host, which keeps the
  /// optimizer's state. Without effect on CPUs.
  bool offload_optimizer = false;
  learning_rate_schedule learning_rate{};
  loss_scale_options loss_scale{};
  /// Gradients of 16-bit parameters are kept, and those of further microbatches
  /// added, in fp32, as Megatron-LM and DeepSpeed do; else in the parameters'
  /// dtype, in which sums of many microbatches stop growing.
  bool accumulate_in_fp32 = true;
  gradient_division division{};  // of the gradients of replicas
  double clip = 0;               // largest gradient norm; 0: no clipping
  norm_type gradient_norm = norm_type::two;
  /// The dtype of autocast forwards (bf16, fp16); see autocast_scope. fp16
  /// wants a dynamic loss scale.
  std::optional<at::ScalarType> autocast{};
  /// bf16 or fp16: activations and gradients have that dtype, too, and updates
  /// are made in fp32, of masters (optimizer.hpp).
  parameter_dtypes dtypes{};
  /// Stages keep only the inputs of forwards, and run them again in backward
  /// (Chen et al.), to save memory. The bits are the same, as the second
  /// forward draws the random numbers of the first.
  bool recompute = false;
  weight_split backward_split = weight_split::automatic;
  bool halt_on_nan = false;  // a loss that is not finite fails a stage's step

  /// Whether replicas give their gradients in fp32.
  bool reduces_in_fp32() const {
    return accumulate_in_fp32 && division.in_fp32;
  }

  /// Whether updates wait for the gradient norm of all stages.
  bool needs_norm() const { return clip > 0 || loss_scale.dynamic; }
};

/// Throws `invalid_argument` for values that make no sense.
void require_legal(const numerics& options);

}  // namespace troupe
