#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

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

/// The group that counts for a parameter; null: none matches.
const parameter_group* group_of(const parameter_groups& groups,
                                const std::string& name);

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

/// Throws `invalid_argument` for a glob that matches no parameter of the model,
/// with the names that are closest to it, and if all parameters are frozen.
/// `names`: of all parameters.
void require_matching(const parameter_groups& groups,
                      const std::vector<std::string>& names);

/// Clears `requires_grad` of the frozen parameters.
void freeze(const parameter_list& parameters, const parameter_groups& groups);

/// The parameters that require gradients.
parameter_list trainable(const parameter_list& parameters);

}  // namespace troupe
