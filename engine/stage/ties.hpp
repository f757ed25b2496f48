#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/collective_work.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

// Tied parameters. Each layer that holds one has a leaf of its own, also where
// several are on one stage: so sums do not depend on the split. The gradient of
// each holder is accumulated over microbatches and reduced over replicas and
// copies of its stage; then the gradients of all holders are added in model
// order. All holders update alike, and need no broadcast (as in Megatron-LM,
// whose first and last stages all-reduce the embedding's gradient).

/// A parameter that several layers hold.
struct parameter_tie {
  struct holder {
    std::string name;        // in the unsplit model
    std::int32_t layer = 0;  // index in the model
  };
  /// The holders in model order. The first one is the owner, whose name is used
  /// in files, norms and settings.
  std::vector<holder> holders;
  bool trained = true;  // the layers let it be trained (requires_grad)

  const std::string& owner() const { return holders.front().name; }
};
using parameter_ties = std::vector<parameter_tie>;

/// The ties of a model, in the order in which their owners are first named.
/// Makes the layers that are tied, one at a time. Throws `invalid_argument`
/// naming both parameters: for a name that does not exist, is tied twice, to
/// itself or to one that is tied itself, and for parameters of different shapes
/// or dtypes, or of which one is frozen.
parameter_ties ties_of(const model& layers);

/// Copies the initial values of their owners into a layer's tied parameters.
/// Throws as `ties_of`.
void take_tied_values(const model& layers, std::size_t index,
                      const stage_module& module);

/// The ties whose parameter is trained.
parameter_ties trained_ties(parameter_ties ties,
                            const parameter_groups& settings);

/// Lets all holders of a parameter have its owner's settings. Throws
/// `invalid_argument` naming both if a group names another holder alone, or if
/// Muon would update some of them.
numerics with_settings_of_owners(numerics options, const parameter_ties& ties);

/// The owner's name by that of each other holder.
using alias_names = std::map<std::string, std::string>;
alias_names aliases_of(const parameter_ties& ties);

/// Removes the aliases, which files do not have.
parameter_list without_aliases(parameter_list parameters,
                               const alias_names& aliases);
/// Adds the aliases to a file's values, which are those of their owners. Throws
/// `invalid_checkpoint`, naming both and `origin`, for an alias that is there
/// with other values.
parameter_list with_aliases(parameter_list values, const alias_names& aliases,
                            const std::string& origin);

/// Do the same for an optimizer's state.
optimizer_state without_aliases(optimizer_state state,
                                const alias_names& aliases);
optimizer_state with_aliases(optimizer_state state, const alias_names& aliases);

/// For each tie the stages of its holders, in model order.
std::vector<std::vector<std::int32_t>> holding_stages(
  const parameter_ties& ties, const stage_split& split);

/// The stages that occur in any of the lists, ascending.
std::vector<std::int32_t> joined(
  const std::vector<std::vector<std::int32_t>>& stages);

/// The stages of a model that hold trained ones, ascending.
std::vector<std::int32_t> tied_stages(const model& layers,
                                      const stage_split& split,
                                      const parameter_groups& settings);

/// The positions of the tied parameters among a stage's trained ones, by tie,
/// then in model order.
std::vector<tied_gradient> tied_among(const parameter_ties& ties,
                                      const parameter_list& trained);

/// The holders of one parameter, in model order.
struct tied_holders {
  std::vector<at::Tensor*> gradients;  // in the lists of their members
  tensor_list parameters;              // or pieces of them
};
/// The holders in a member's part of a sum, by tie.
std::map<std::int32_t, tied_holders> holders_of(tied_sum& work);

/// Replaces the gradients by their sum, each in memory of its own; gradients of
/// 16 bits become fp32, as in a mean. A missing gradient counts as zeros; if
/// all are missing, they stay so.
void sum_tied(const tied_holders& holders);

}  // namespace troupe
