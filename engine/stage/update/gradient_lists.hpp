#pragma once

#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/tied_gradient.hpp"

namespace troupe {

// The gradients of a stage's parameters on their way to the reducer and back:
// one for each parameter, undefined where there is none.

/// The tensor in the host's memory: where it is on a device, once that device's
/// compute stream has made it. `device`: null: it is on the host.
at::Tensor read_on_host(const at::Tensor& tensor, rank_device* device);

/// The tensors, without their names.
tensor_list values_of(const parameter_list& parameters);

/// Those that count in norms: tied parameters as their owners alone.
parameter_list counted_of(parameter_list parameters,
                          const std::vector<tied_gradient>& tied);

/// Converts gradients of 16 bits to fp32: LibTorch then adds those of further
/// backwards to them in fp32. Within the entered stream.
void widen_gradients(const tensor_list& parameters);

/// Moves the gradients out of the parameters.
tensor_list take_gradients(const tensor_list& parameters);

/// Whether there is a gradient of each parameter, from a row of numbers (not
/// 0) on the host or, with `device`, there, for whose compute stream the host
/// waits.
std::vector<bool> present_of(const at::Tensor& numbers, rank_device* device);

/// Moves them back. Throws `internal` for another number of gradients than of
/// parameters.
void put_gradients(const tensor_list& parameters, tensor_list gradients);

}  // namespace troupe
