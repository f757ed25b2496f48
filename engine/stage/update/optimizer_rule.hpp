#pragma once

#include <memory>
#include <string_view>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/optimizer_options.hpp"

namespace troupe {

/// The number of updates that a parameter has had: a scalar of its state,
/// whatever the parameter's shape.
inline constexpr std::string_view step_state_name = "step";

/// The fp32 copy of a parameter of a 16-bit dtype: the last tensor of its
/// state.
inline constexpr std::string_view master_state_name = "master";

/// What an update reads and writes: lists by parameter.
struct update_lists {
  tensor_list parameters, gradients;
  tensor_lists state;  // of each, as fresh_state lists them, then the master
  bool first = false;  // the state was made for this update
};

/// The formula of an optimizer, without its bookkeeping (optimizer.hpp).
class optimizer_rule {
 public:
  virtual ~optimizer_rule() = default;

  /// The state of a parameter before its first update.
  virtual parameter_list fresh_state(const at::Tensor& parameter) const = 0;
  /// Called without gradient mode, with one parameter or more.
  virtual void update(const update_lists& lists,
                      double learning_rate) const = 0;
};

std::unique_ptr<optimizer_rule> make_rule(const sgd& options);
std::unique_ptr<optimizer_rule> make_rule(const adamw& options);
std::unique_ptr<optimizer_rule> make_rule(const lion& options);
std::unique_ptr<optimizer_rule> make_rule(const adafactor& options);
/// Of matrices alone.
std::unique_ptr<optimizer_rule> make_rule(const muon& options);

}  // namespace troupe
