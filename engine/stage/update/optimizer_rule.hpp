#pragma once

#include <string_view>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The number of updates that a parameter has had: a scalar of its state,
/// whatever the parameter's shape.
inline constexpr std::string_view step_state_name = "step";

/// The fp32 copy of a parameter of a 16-bit dtype: the last tensor of its
/// state.
inline constexpr std::string_view master_state_name = "master";

/// The tensors that an update reads and writes, by parameter.
struct update_lists {
  tensor_list parameters, gradients;
  tensor_lists state;  // of each, as fresh_state lists them, then the master
  bool first = false;  // the state was made for this update
};

// The formulas of optimizers, without their bookkeeping (optimizer.hpp): the
// state of a parameter before its first update, and an update of one parameter
// or more, without gradient mode.

parameter_list fresh_state(const sgd&, const at::Tensor& parameter);
parameter_list fresh_state(const adamw&, const at::Tensor& parameter);
parameter_list fresh_state(const lion&, const at::Tensor& parameter);
parameter_list fresh_state(const adafactor&, const at::Tensor& parameter);
parameter_list fresh_state(const muon&, const at::Tensor& matrix);

void update(const sgd&, const update_lists& lists, double learning_rate);
void update(const adamw&, const update_lists& lists, double learning_rate);
void update(const lion&, const update_lists& lists, double learning_rate);
void update(const adafactor&, const update_lists& lists, double learning_rate);
/// Updates matrices alone.
void update(const muon&, const update_lists& lists, double learning_rate);

}  // namespace troupe
