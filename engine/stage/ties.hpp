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
// several are on one stage: so sums do not depend on the split. The gradient is
// the sum over the holders, in model order, of each one's own, which is
// accumulated over microbatches, and reduced over replicas and copies of a
// stage, before. All holders then update alike, and need no broadcast (as in
// Megatron-LM, whose first and last stages all-reduce the embedding's
// gradient).

/// A parameter that several layers hold.
struct parameter_tie {
  struct holder {
    std::string name;        // in the unsplit model
    std::int32_t layer = 0;  // which of the model's
  };
  /// In model order; the first owns it: its name stands in files, norms and
  /// settings.
  std::vector<holder> holders;
  bool trained = true;  // the layers let it be trained (requires_grad)

  const std::string& owner() const { return holders.front().name; }
};
using parameter_ties = std::vector<parameter_tie>;

/// Those of a model, by the order of their owners' first mention. Makes the
/// layers that are tied, one at a time. Throws `invalid_argument` naming both
/// parameters: for a name that does not exist, is tied twice, to itself or to
/// one that is tied itself, and for other shapes or dtypes, or a frozen and a
/// trained one.
parameter_ties ties_of(const model& layers);

/// Copies into a layer's tied parameters the initial values of their owners.
/// Throws as `ties_of`.
void take_tied_values(const model& layers, std::size_t index,
                      const stage_module& made);

/// Those that are trained.
parameter_ties trained_ties(parameter_ties ties,
                            const parameter_groups& settings);

/// Lets all holders of a parameter have its owner's settings. Throws
/// `invalid_argument` naming both if a group names another holder alone, or if
/// Muon would update some of them.
numerics with_settings_of_owners(numerics options, const parameter_ties& ties);

/// The owner's name by that of each other holder.
using alias_names = std::map<std::string, std::string>;
alias_names aliases_of(const parameter_ties& ties);

/// Without the aliases: as files have them.
parameter_list without_aliases(parameter_list parameters,
                               const alias_names& aliases);
/// A file's values with those of aliases, which are their owners'. Throws
/// `invalid_checkpoint`, naming both and `origin`, for an alias that is there
/// with other values.
parameter_list with_aliases(parameter_list values, const alias_names& aliases,
                            const std::string& origin);

/// The same for an optimizer's state.
optimizer_state without_aliases(optimizer_state state,
                                const alias_names& aliases);
optimizer_state with_aliases(optimizer_state state, const alias_names& aliases);

/// By tie: the stages of its holders, in model order.
std::vector<std::vector<std::int32_t>> holding_stages(
  const parameter_ties& ties, const stage_split& split);

/// All of those stages, ascending.
std::vector<std::int32_t> joined(
  const std::vector<std::vector<std::int32_t>>& stages);

/// The stages of a model that hold trained ones, ascending.
std::vector<std::int32_t> tied_stages(const model& layers,
                                      const stage_split& split,
                                      const parameter_groups& settings);

/// Those of a stage's trained parameters that are tied, by tie, then in model
/// order.
std::vector<tied_gradient> tied_among(const parameter_ties& ties,
                                      const parameter_list& trained);

/// Holders of one parameter, in model order: where their gradients are, and
/// the parameters, or pieces of them.
struct tied_holders {
  std::vector<at::Tensor*> gradients;
  tensor_list like;
};
/// Those of a member's part of a sum, by tie.
std::map<std::int32_t, tied_holders> holders_of(tied_sum& work);

/// Replaces the gradients by their sum (of 16 bits in fp32, as a mean), each in
/// memory of its own; a missing one counts as zeros, and there is no sum of
/// none.
void sum_tied(const tied_holders& holders);

}  // namespace troupe
