#pragma once

#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The group that counts for a parameter; null: none matches.
const parameter_group* group_of(const parameter_groups& groups,
                                const std::string& name);

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
