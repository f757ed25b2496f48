#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

// How parameters are updated from their gradients. Where PyTorch 2.11 has an
// optimizer of the same name in torch.optim, these are its options, and the
// results agree.

/// Stochastic gradient descent; weight decay is added to the gradient. State,
/// with a momentum: "momentum_buffer".
struct sgd {
  double learning_rate = 0.05;
  double momentum = 0;
  double weight_decay = 0;
  /// Damps a gradient, but a parameter's first, as it enters the momentum.
  double dampening = 0;
  /// Nesterov's momentum: wants a momentum, and no dampening.
  bool nesterov = false;
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).
/// State: "step", "exp_avg", "exp_avg_sq".
struct adamw {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

/// Chen et al., "Symbolic discovery of optimization algorithms" (2023): steps
/// of one size, in the direction of the sign of an average; decoupled weight
/// decay. State: "exp_avg".
struct lion {
  double learning_rate = 1e-4;
  double beta1 = 0.9;   // of the average whose sign is taken
  double beta2 = 0.99;  // of the average that is kept
  double weight_decay = 0;
};

/// Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory
/// cost" (2018): of the second moments of a matrix only the means of rows and
/// columns are kept (of a tensor with more dimensions: of the last two). Steps
/// are relative to the size of the parameter. State: "step", and "row_var" and
/// "col_var", or "variance" for vectors and scalars.
struct adafactor {
  double learning_rate = 1e-2;  // at most; 1 / sqrt(step) where that is less
  double beta2_decay = -0.8;
  std::optional<double> epsilon1{};  // of variances; none: the dtype's
  double epsilon2 = 1e-3;            // least size of a parameter
  double threshold = 1;              // largest root mean square of an update
  double weight_decay = 0;
};

/// How Muon's learning rate depends on a matrix of A rows and B columns.
enum class muon_scale : std::uint8_t {
  /// sqrt(max(1, A / B)), as Jordan's; PyTorch's default.
  original,
  /// 0.2 sqrt(max(A, B)), so that updates are as large as AdamW's (Liu et al.,
  /// "Muon is scalable for LLM training", 2025).
  match_rms_adamw,
};

/// Jordan et al., "Muon: an optimizer for hidden layers in neural networks"
/// (2024): the momentum, made orthogonal by Newton and Schulz's iteration, in
/// bf16. State: "momentum_buffer".
///
/// Muon updates parameters of two dimensions. AdamW updates all others, and
/// those whose names match `except`, with the same learning rate and weight
/// decay: the usual choice for embeddings, heads, norms and biases.
struct muon {
  double learning_rate = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;
  std::int32_t newton_schulz_steps = 5;
  double newton_schulz_epsilon = 1e-7;
  /// The default lets one learning rate suit matrices and AdamW's parameters.
  muon_scale scale = muon_scale::match_rms_adamw;
  /// Globs of parameters' names, joined by commas.
  std::string except = "tok.*,pos.*,*emb*,*wte.*,*wpe.*,*head.*";
  /// AdamW's options for all other parameters.
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

using optimizer_options = std::variant<sgd, adamw, lion, adafactor, muon>;

double base_learning_rate(const optimizer_options& options);

/// Throws `invalid_argument` for values that make no sense.
void require_legal(const optimizer_options& options);

/// Settings of the parameters whose names match.
struct parameter_group {
  /// Globs, joined by commas.
  std::string names;
  /// The factor of the run's learning rate.
  double learning_rate = 1;
  /// Replaces the optimizer's.
  std::optional<double> weight_decay{};
  /// The parameters are never updated: no gradient is computed for them where
  /// that can be avoided, none is reduced or counts in a norm, and the
  /// optimizer keeps no state of them.
  bool frozen = false;
};

/// Only the last one counts of several groups that match a parameter.
using parameter_groups = std::vector<parameter_group>;

/// Adds groups that keep these parameters, such as norms and biases, from
/// decaying, unless their group sets a weight decay.
parameter_groups without_decay(parameter_groups groups,
                               const std::vector<std::string>& names);

/// Reads "GLOBS:SETTINGS": globs joined by commas, and after the last colon,
/// joined by commas, `lr*FACTOR`, `weight-decay=NUMBER`, or `frozen` alone:
/// "tok.*,pos.*:lr*0.5,weight-decay=0". Throws `invalid_argument`.
parameter_group parse_parameter_group(const std::string& text);

/// Throws `invalid_argument` for globs and numbers that make no sense.
void require_legal(const parameter_groups& groups);

/// How the mean of the gradients of replicas is computed, as in XLA's fully
/// sharded data parallel: each is divided by `before` in its own dtype (see
/// `numerics::reduces_in_fp32`), converted to fp32 if it has 16 bits and
/// `in_fp32` is set, added, converted to fp32, and divided by `after`.
struct gradient_division {
  double before = 1;
  double after = 0;     // 0: replicas / before, so that the result is the mean
  bool in_fp32 = true;  // fp32_reduce_scatter

  friend bool operator==(const gradient_division&,
                         const gradient_division&) = default;
};

/// A division before the sum by a power of two near the square root of the
/// number of replicas, and by the rest after it: neither the gradients nor
/// their sum leave the range of fp16 where the mean does not (fairscale).
gradient_division balanced_division(std::int32_t replicas);

/// Throws `invalid_argument` for factors that are not finite and positive.
void require_legal(const gradient_division& division);

/// The dtypes of a model's floating-point parameters and buffers, as
/// `compute_dtype` and `buffer_dtype` of XLA's fully sharded data parallel;
/// none: that of the layers, which is fp32.
struct parameter_dtypes {
  std::optional<c10::ScalarType>
    parameters{};                            // and of values computed from them
  std::optional<c10::ScalarType> buffers{};  // none: that of the parameters
};

/// Throws `invalid_argument` for a dtype other than fp32, bf16 and fp16.
void require_legal(const parameter_dtypes& dtypes);

/// Keeps small gradients of half-precision training from underflowing
/// (Micikevicius et al., 2018): the loss is multiplied before the backward pass
/// and the gradients are divided, in fp32, before the update. A dynamic scale
/// halves and skips the update when a gradient is not finite, and doubles after
/// `growth_interval` good steps, within `smallest` and `largest_loss_scale`.
/// Defaults are those of PyTorch's GradScaler; the smallest is Megatron's and
/// DeepSpeed's.
struct loss_scale_options {
  std::optional<double> initial = {};  // none: 2^16 if it is dynamic, else 1
  bool dynamic = false;
  std::int64_t growth_interval = 2000;
  double smallest = 1;  // of a dynamic scale; or `initial`, if that is less
  /// A step fails after so many updates were skipped in a row at the smallest
  /// scale, where halving no longer helps; 0: no step does.
  std::int64_t most_skipped = 10;

  double first() const { return initial.value_or(dynamic ? 0x1p16 : 1); }
};

}  // namespace troupe
