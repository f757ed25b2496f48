#pragma once

#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/tied_gradient.hpp"

namespace troupe {

// The gradients of a stage's parameters on their way to the reducer and back:
// one for each parameter, undefined where there is none.

/// Copies a tensor of a device to the host's memory, and waits for the device's
/// compute stream. `device`: null: the tensor is on the host, and returned.
at::Tensor read_on_host(const at::Tensor& tensor, rank_device* device);

/// The tensors, without their names.
tensor_list values_of(const parameter_list& parameters);

/// The parameters that count in norms: tied ones as their owners alone.
parameter_list norm_parameters_of(parameter_list parameters,
                                  const std::vector<tied_gradient>& tied);

/// Converts gradients of 16 bits to fp32, within the entered stream: LibTorch
/// then adds those of further backwards to them in fp32.
void widen_gradients(const tensor_list& parameters);

/// Moves the gradients out of the parameters.
tensor_list take_gradients(const tensor_list& parameters);

/// Reads a row of numbers (not 0: the gradient is present), as
/// `member_gradients::present`, by `read_on_host`.
std::vector<bool> read_presence(const at::Tensor& row, rank_device* device);

/// Moves gradients into the parameters. Throws `internal` for another number of
/// gradients than of parameters.
void put_gradients(const tensor_list& parameters, tensor_list gradients);

}  // namespace troupe
