#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

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

}  // namespace troupe
