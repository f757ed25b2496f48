#include "troupe/engine/stage/update/update_options.hpp"

#include <cmath>

#include "troupe/base/fail.hpp"
#include "troupe/engine/events/globs.hpp"

namespace troupe {

namespace {

void require(bool is_legal, const char* name, double value, const char* range) {
  if (!is_legal)
    fail(error_code::invalid_argument, "the {} of the optimizer is {}; use {}",
         name, value, range);
}

void require_at_least_0(const char* name, double value) {
  require(std::isfinite(value) && value >= 0, name, value,
          "a finite number, 0 or more");
}

void require_above_0(const char* name, double value) {
  require(std::isfinite(value) && value > 0, name, value,
          "a finite number above 0");
}

void require_fraction(const char* name, double value) {
  require(value >= 0 && value < 1, name, value, "a number from 0 to below 1");
}

void require_own(const sgd& options) {
  require_fraction("momentum", options.momentum);
  require_fraction("dampening", options.dampening);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    fail(error_code::invalid_argument,
         "Nesterov's momentum requires a momentum and no dampening; they are "
         "{} and {}",
         options.momentum, options.dampening);
}

void require_own(const adamw& options) {
  require_fraction("beta1", options.beta1);
  require_fraction("beta2", options.beta2);
  require_at_least_0("epsilon", options.epsilon);
}

void require_own(const lion& options) {
  require_fraction("beta1", options.beta1);
  require_fraction("beta2", options.beta2);
}

void require_own(const adafactor& options) {
  require(std::isfinite(options.beta2_decay) && options.beta2_decay <= 0,
          "decay of beta2", options.beta2_decay, "a finite number, 0 or less");
  if (options.epsilon1)
    require_at_least_0("epsilon1", *options.epsilon1);
  require_at_least_0("epsilon2", options.epsilon2);
  require(std::isfinite(options.threshold) && options.threshold >= 1,
          "threshold", options.threshold, "a finite number, 1 or more");
}

void require_own(const muon& options) {
  require_fraction("momentum", options.momentum);
  require_above_0("newton_schulz_epsilon", options.newton_schulz_epsilon);
  require(options.newton_schulz_steps >= 1 && options.newton_schulz_steps < 100,
          "number of Newton-Schulz steps", options.newton_schulz_steps,
          "1 to 99");
  if (!options.except.empty())
    require_globs(options.except);
  require_fraction("beta1", options.beta1);
  require_fraction("beta2", options.beta2);
  require_at_least_0("epsilon", options.epsilon);
}

}  // namespace

double base_learning_rate(const optimizer_options& options) {
  return std::visit([](const auto& kind) { return kind.learning_rate; },
                    options);
}

void require_legal(const optimizer_options& options) {
  std::visit(
    [](const auto& kind) {
      require_at_least_0("learning rate", kind.learning_rate);
      require_at_least_0("weight decay", kind.weight_decay);
      require_own(kind);
    },
    options);
}

}  // namespace troupe
